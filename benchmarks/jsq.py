"""Speed of the exact law and of the first picture: ``python benchmarks/jsq.py``. Warm medians unless said otherwise."""

import statistics
import subprocess
import sys
import time

import numpy as np

from lbcore import theory
from lbcore.pictures.jsq import stationary_law


def median_ms(function, arguments):
    """Return the median time of ``function(argument)`` in milliseconds, over fresh arguments."""
    times = []
    for argument in arguments:
        start = time.perf_counter()
        function(argument)
        times.append(1000 * (time.perf_counter() - start))
    return statistics.median(times)


def fresh_process(code):
    """Return the wall time in seconds of ``python -c code``, kernels compiled before."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - start


def main():
    """Print one line a figure."""
    betas = np.geomspace(0.031, 4.9, 41)
    theory.diffusion_law(1.0)
    print(f"diffusion_law, one beta:                   {median_ms(theory.diffusion_law, betas):8.1f} ms")
    laws = [theory.diffusion_law(beta) for beta in betas]
    print(f"its error estimate (solved again):         {median_ms(lambda law: law.error, laws):8.1f} ms")
    worst = max(law.error for law in laws)
    print(f"largest relative error over 41 beta:       {worst:8.0e}")

    def curve(low):
        return [theory.diffusion_law(beta).mean_q2 for beta in np.geomspace(low, 5, 60)]

    print(f"curve of E Q2 over 60 beta:                {median_ms(curve, [0.0301, 0.0302, 0.0303]) / 1000:8.2f} s")
    explorer = stationary_law.explore()
    betas = np.geomspace(0.032, 4.8, 40)
    compute = median_ms(lambda beta: stationary_law.plots(beta=beta), betas)
    results = [stationary_law.plots(beta=beta) for beta in betas]
    draw = median_ms(lambda r: explorer.board.draw(r, dragging=True), results)
    png = median_ms(lambda _: explorer.board.png(), betas)
    print(f"one drawing of the explorer: compute       {compute:8.1f} ms")
    print(f"                             curves        {draw:8.1f} ms")
    print(f"                             picture       {png:8.1f} ms")
    print(f"fresh process: import lbcore               {fresh_process('import lbcore'):8.2f} s")
    print(f"               import lbcore.jsq           {fresh_process('import lbcore.jsq'):8.2f} s")
    first = fresh_process("import lbcore; lbcore.pictures.jsq.factor_two.explore()")
    print(f"               first figure of notebook 00 {first:8.2f} s")
    first = fresh_process("import lbcore; lbcore.pictures.jsq.stationary_law.explore()")
    print(f"               first explorer of 03        {first:8.2f} s")


if __name__ == "__main__":
    main()
