"""How kernels are compiled and cached: decided here, once.

Every kernel of the package is decorated with :func:`kernel`: nopython, the GIL released, compiled on
first use, kept on disk. Numba itself checks only the file a kernel stands in, so a kernel whose *callee*
was edited in another file would go stale. Here the cache folder is named after the text of all source
files of the package: edit any of them and every kernel is compiled anew, edit none and none is.
A cache that is missing, truncated or not writable means compiling again with a word about it.
"""

import hashlib
import os
import shutil
import warnings
from pathlib import Path

import numba
from numba.core.caching import FunctionCache

_PACKAGE = Path(__file__).parent


def _source_digest() -> str:
    """Return 12 hex digits that change with any source file of the package."""
    digest = hashlib.sha256()
    for path in sorted(_PACKAGE.glob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def _writable_folder() -> Path | None:
    """Return the first cache folder that can be written, or None with a warning."""
    user_cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lbcore"
    chosen = numba.config.CACHE_DIR
    for base in [Path(chosen)] if chosen else [_PACKAGE / "__pycache__", user_cache]:
        folder = base / f"kernels-{_source_digest()}"
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
    """Numba's file cache, except that a broken entry is compiled again instead of raising."""

    def load_overload(self, sig, target_context):
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


def kernel(function):
    """Compile a function of this package: nopython, GIL released, cached on disk.

    Under ``NUMBA_DISABLE_JIT=1`` the function is returned as it is.
    """
    compiled = numba.njit(nogil=True, error_model="numpy")(function)
    if FOLDER is not None:
        before, numba.config.CACHE_DIR = numba.config.CACHE_DIR, str(FOLDER)
        try:
            compiled._cache = _Cache(function)
        finally:
            numba.config.CACHE_DIR = before
    return compiled


def remove_stale() -> int:
    """Remove the kernels of earlier versions of the source; return how many folders went."""
    if FOLDER is None:
        return 0
    stale = [f for f in FOLDER.parent.glob("kernels-*") if f != FOLDER]
    for folder in stale:
        shutil.rmtree(folder, ignore_errors=True)
    return len(stale)
