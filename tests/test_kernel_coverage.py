"""The kernels run without the JIT as well: coverage sees their lines, and they give the numbers of compiled ones."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from test_kernels import numbers

ROOT = Path(__file__).parent.parent
WITH_KERNELS = [str(path) for path in sorted(ROOT.glob("tests/*/test_*.py")) if "mark.kernel" in path.read_text()]


def kernels(path):
    """Return the names of the functions in a file that are decorated with ``kernel`` or ``inlined``."""
    functions = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)]
    return {f.name for f in functions if any(getattr(d, "id", "") in ("kernel", "inlined") for d in f.decorator_list)}


@pytest.mark.first
@pytest.mark.skipif("NUMBA_DISABLE_JIT" in os.environ, reason="this is that run")
def test_kernels_without_the_jit_are_covered_and_give_the_same_numbers(tmp_path, record_property):
    interpreted = tmp_path / "numbers.json"
    environment = os.environ | {
        "NUMBA_DISABLE_JIT": "1", "COVERAGE_FILE": str(tmp_path / "coverage"), "NUMBERS_FILE": str(interpreted),
    }  # fmt: skip
    coverage = [sys.executable, "-m", "coverage"]

    def call(*arguments):
        done = subprocess.run([*coverage, *arguments], cwd=ROOT, env=environment, text=True, capture_output=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    call("run", "-m", "pytest", "-m", "kernel", "-p", "no:cacheprovider", "tests/test_kernels.py", *WITH_KERNELS)
    files = json.loads(call("json", "--quiet", "-o", "-"))["files"]
    lines, covered, missing = 0, 0, []
    for name, file in files.items():
        found = kernels(ROOT / name)
        for function, data in file["functions"].items():
            if function in found:
                lines += data["summary"]["num_statements"]
                covered += data["summary"]["covered_lines"]
                missing += [f"{name}: {function} misses lines {data['missing_lines']}"] * bool(data["missing_lines"])
    percent = 100 * covered / lines
    record_property("kernels without the JIT", f"{covered} of {lines} statements covered, {percent:.1f} %")
    assert percent >= 95, missing
    interpreted = json.loads(interpreted.read_text())
    for name, value in numbers().items():
        assert value == pytest.approx(interpreted[name], rel=1e-9), name
