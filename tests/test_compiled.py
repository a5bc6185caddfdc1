"""The kernel cache: never stale, never in the way."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

CALLER = "from lbcore.compiled import kernel\nfrom lbcore.helper import g\n@kernel\ndef f(x):\n    return g(x) + 1\n"
HELPER = "from lbcore.compiled import kernel\n@kernel\ndef g(x):\n    return {} * x\n"
RUN = """
from lbcore import caller, compiled
value = caller.f(3)
print(value, len(caller.f.stats.cache_hits), compiled.FOLDER)
"""


@pytest.fixture
def package(tmp_path):
    """Lay a small package that uses compiled.py; return a function that runs it and gives what it printed."""
    folder = tmp_path / "lbcore"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "compiled.py").write_text((ROOT / "lbcore/compiled.py").read_text())
    (folder / "caller.py").write_text(CALLER)
    (folder / "helper.py").write_text(HELPER.format(2))

    def run(**more):
        environment = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1", **more}
        environment.pop("NUMBA_DISABLE_JIT", None)
        done = subprocess.run(
            [sys.executable, "-c", RUN], env=environment, cwd=tmp_path, text=True, capture_output=True
        )
        assert done.returncode == 0, done.stderr
        value, hits, where = done.stdout.strip().split(" ", 2)
        return int(value), int(hits), where, done.stderr

    run.folder = folder
    return run


def cache_files(where, pattern):
    return list(Path(where).rglob(pattern))


def test_second_process_loads_what_the_first_compiled(package):
    assert package()[:2] == (7, 0)
    assert package()[:2] == (7, 1)


def test_editing_a_callee_in_another_file_recompiles_its_callers(package):
    package()
    (package.folder / "helper.py").write_text(HELPER.format(5))
    assert package()[:2] == (16, 0)


def test_editing_a_file_recompiles_none_but_those_that_import_it(package):
    package()
    (package.folder / "other.py").write_text("from lbcore import (\n    caller,\n)\n")
    assert package()[:2] == (7, 1)
    (package.folder / "deep").mkdir()
    (package.folder / "deep" / "__init__.py").touch()
    (package.folder / "helper.py").rename(package.folder / "deep" / "helper.py")
    (package.folder / "caller.py").write_text(CALLER.replace("lbcore.helper", "lbcore.deep.helper"))
    assert package()[:2] == (7, 0)
    assert package()[:2] == (7, 1)
    (package.folder / "deep" / "helper.py").write_text(HELPER.format(5))
    assert package()[:2] == (16, 0)


def test_old_kernels_are_removed(package):
    package()
    (package.folder / "helper.py").write_text(HELPER.format(5))
    where = package()[2]
    code = "from lbcore import compiled; print(compiled.remove_stale())"
    environment = {**os.environ, "PYTHONPATH": str(package.folder.parent)}
    out = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=package.folder, text=True, capture_output=True, check=True
    )
    assert out.stdout.strip() == "2"  # of the file that was edited and of the one that imports it
    assert Path(where).is_dir()


@pytest.mark.parametrize("pattern", ["*.nbi", "*.nbc"])
def test_truncated_cache_is_compiled_again_with_a_word(package, pattern):
    where = package()[2]
    broken = cache_files(where, pattern)
    assert broken
    for path in broken:
        path.write_bytes(path.read_bytes()[:7])
    value, hits, _, words = package()
    assert (value, hits) == (7, 0)
    assert "compiled again" in words
    assert package()[:2] == (7, 1)


def test_user_folder_when_the_package_is_read_only(package, tmp_path):
    (package.folder / "__pycache__").write_text("a file in the way of the folder")
    where = package(XDG_CACHE_HOME=str(tmp_path / "home"))[2]
    assert where.startswith(str(tmp_path / "home" / "lbcore"))
    chosen = package(NUMBA_CACHE_DIR=str(tmp_path / "chosen"))[2]
    assert chosen.startswith(str(tmp_path / "chosen"))


def test_no_writable_folder_means_compiling_with_a_word(package, tmp_path):
    (package.folder / "__pycache__").write_text("")
    (tmp_path / "home").write_text("")
    value, hits, where, words = package(XDG_CACHE_HOME=str(tmp_path / "home"))
    assert (value, hits, where) == (7, 0, "None")
    assert "no folder to keep compiled kernels" in words


def test_other_packages_caches_are_left_alone():
    code = (
        "import numba; before = numba.config.CACHE_DIR; "
        "import lbcore.chance.draws; assert numba.config.CACHE_DIR == before"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
