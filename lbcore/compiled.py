"""How kernels are compiled and cached: decided here, once.

Every kernel of the package is decorated with :func:`kernel`: nopython, the GIL released, compiled on
first use, kept on disk. Numba itself checks only the file a kernel stands in, so a kernel whose *callee*
was edited in another file would go stale. Here each file has a cache folder named after its own text and that
of all files of the package that it imports, directly or not: edit one and all kernels that may call it are
compiled anew, and no others. A cache that is missing, truncated or not writable means compiling again with a word
about it.
"""

import hashlib
import inspect
import os
import re
import shutil
import warnings
from functools import cache
from pathlib import Path

import numba
from numba.core.caching import FunctionCache

_PACKAGE = Path(__file__).parent
# a module of the package, and what is imported from it, in parentheses or to the end of the line
_IMPORT = re.compile(rf"^\s*(?:from|import) ({_PACKAGE.name}[\w.]*)(?: import (\([^)]*\)|.*))?", re.MULTILINE)


@cache
def _imported(path):
    """Return the files of the package that a file imports, as far down as it goes, itself included."""
    found, new = set(), {path}
    while new:
        found |= new
        new = set().union(*map(_named_in, new)) - found
    return found


@cache
def _named_in(path):
    """Return the files of the package that the import statements of a file name; packages by their __init__.py."""
    names = set()
    for module, listed in _IMPORT.findall(path.read_text()):
        names |= {module, *(f"{module}.{name}" for name in re.findall(r"\w+", listed))}
    inside = (_PACKAGE.parent.joinpath(*name.split(".")) for name in names)
    return {file for place in inside for file in (place.with_suffix(".py"), place / "__init__.py") if file.is_file()}


def _folder_name(path):
    """Return the name of a file's cache folder, which changes with any text that its kernels could depend on."""
    digest = hashlib.sha256()
    for file in sorted(_imported(path)):
        digest.update(os.path.relpath(file, _PACKAGE).encode() + b"\0" + file.read_bytes() + b"\0")
    name = path.relative_to(_PACKAGE) if path.is_relative_to(_PACKAGE) else Path(path.name)  # a test's own kernel
    return f"{'.'.join(name.with_suffix('').parts)}-{digest.hexdigest()[:12]}"


def _writable_folder() -> Path | None:
    """Return the first folder for caches that can be written, or None with a warning."""
    user_cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lbcore"
    chosen = numba.config.CACHE_DIR
    for base in [Path(chosen)] if chosen else [_PACKAGE / "__pycache__", user_cache]:
        folder = base / "lbcore-kernels"
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            probe = folder / f".probe-{os.getpid()}"
            probe.touch()
            probe.unlink()
        except OSError:
            continue
        return folder
    warnings.warn(
        "lbcore found no folder to keep compiled kernels in, so each session compiles them anew "
        "(set NUMBA_CACHE_DIR to a writable folder to avoid that)",
        stacklevel=2,
    )
    return None


FOLDER = None if numba.config.DISABLE_JIT else _writable_folder()


class _Cache(FunctionCache):
    """Numba's file cache, except that a broken entry is compiled again instead of raising.

    What is compiled for a jitted function that a user has handed over is not kept: the next process would not know
    that function again.
    """

    def load_overload(self, sig, target_context):
        if _takes_a_function(sig):
            return None
        try:
            return super().load_overload(sig, target_context)
        except Exception as error:  # a truncated or foreign file can raise anything
            self._complain("read", error)
            try:
                self.flush()  # so that the next save starts from an empty index
            except OSError as second:
                self._complain("reset", second)
            return None

    def save_overload(self, sig, data):
        if _takes_a_function(sig):
            return
        try:
            super().save_overload(sig, data)
        except Exception as error:  # a full disk, a folder removed meanwhile, a broken index
            self._complain("write", error)

    def _complain(self, what, error):
        warnings.warn(
            f"lbcore could not {what} the kernel cache in {self.cache_path} "
            f"({type(error).__name__}: {error}); the kernel is compiled again",
            stacklevel=2,
        )


def _takes_a_function(types):
    return any(isinstance(kind, numba.types.Dispatcher) for kind in types)


def fresh(function, **options):
    """Compile a function as :func:`kernel` does, but keep nothing on disk: for a user's functions."""
    return numba.njit(nogil=True, error_model="numpy", **options)(function)


def inlined(function):
    """Compile a function into every kernel that calls it: handing over many arrays would cost more than it does."""
    return fresh(function, forceinline=True)


def kernel(function):
    """Compile a function of this package: nopython, GIL released, cached on disk.

    Under ``NUMBA_DISABLE_JIT=1`` the function is returned as it is.
    """
    compiled = fresh(function)
    if FOLDER is not None:
        folder = FOLDER / _folder_name(Path(inspect.getfile(function)))
        before, numba.config.CACHE_DIR = numba.config.CACHE_DIR, str(folder)
        try:
            compiled._cache = _Cache(function)
        finally:
            numba.config.CACHE_DIR = before
    return compiled


def remove_stale() -> int:
    """Remove the kernels of earlier versions of the source; return how many folders went."""
    if FOLDER is None:
        return 0
    current = {_folder_name(path) for path in _PACKAGE.rglob("*.py")}
    stale = [folder for folder in FOLDER.iterdir() if folder.name not in current]
    for folder in stale:
        shutil.rmtree(folder, ignore_errors=True)
    return len(stale)
