"""Report how much of the kernels the run without the JIT has executed: after ``coverage run``, what `make test` calls.

A kernel is a function decorated with ``@kernel``. Fails below 95 %.
"""

import ast
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def kernels(path):
    """Return the names of the functions in a file that are decorated with ``kernel``."""
    functions = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)]
    return {f.name for f in functions if any(getattr(d, "id", "") == "kernel" for d in f.decorator_list)}


def main():
    command = [sys.executable, "-m", "coverage", "json", "--quiet", "-o", "-"]
    report = json.loads(subprocess.run(command, cwd=ROOT, text=True, capture_output=True, check=True).stdout)
    lines = covered = 0
    for name, file in report["files"].items():
        found = kernels(ROOT / name)
        for function, data in file["functions"].items():
            if function in found:
                summary = data["summary"]
                lines += summary["num_statements"]
                covered += summary["covered_lines"]
                if data["missing_lines"]:
                    print(f"{name}: {function} misses lines {data['missing_lines']}")
    percent = 100 * covered / lines
    print(f"kernels without the JIT: {covered} of {lines} statements covered, {percent:.1f} %")
    return percent < 95


if __name__ == "__main__":
    sys.exit(main())
