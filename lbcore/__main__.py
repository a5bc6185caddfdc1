"""Compile all kernels ahead: ``python -m lbcore``, what `make lab` runs before it opens the notebooks."""

import time

from lbcore import __version__, compiled, jsq


def main():
    """Run each kernel once, so that it is compiled and cached, and remove the kernels of earlier sources."""
    start = time.perf_counter()
    removed = compiled.remove_stale()
    jsq.diffusion_law(1.0)
    seconds = time.perf_counter() - start
    print(f"lbcore {__version__}: kernels ready in {compiled.FOLDER} ({seconds:.1f} s, {removed} old folders removed)")


if __name__ == "__main__":
    main()
