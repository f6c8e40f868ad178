"""Compile simulation kernels with numba, and notice when any of their sources changed.

numba's own cache looks only at the file of the compiled function: an edit in a function that it
calls would go unseen. Here the cache folder's name holds a hash of every kernel source, so any
edit opens a new folder. `NUMBA_DISABLE_JIT=1` runs the same source as plain Python.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numba

from planner.resources import is_writable, user_cache_dir
from planner.sim import by_reference, parts
from planner.sim.parts import PartCompiler, WindowCompiler

# Private options (_nrt) and settings that numba's type stubs do not know.
_njit: Any = numba.njit
_config: Any = numba.config

F = TypeVar("F", bound=Callable[..., Any])

_ENTRY = {"error_model": "numpy", "no_cfunc_wrapper": True, "_nrt": False}
_PART = {**_ENTRY, "no_cpython_wrapper": True, "pipeline_class": PartCompiler}
_WINDOWED = {**_PART, "pipeline_class": WindowCompiler}
KERNEL_SOURCES = Path(__file__).resolve().parent / "kernel"


def sources_hash(folder: Path) -> str:
    """Return a hash of every Python file in `folder`, and of what compiles them."""
    digest = hashlib.sha256(numba.__version__.encode())
    ours = [Path(str(module.__file__)) for module in (by_reference, parts)]
    for source in [*ours, Path(__file__), *sorted(folder.glob("*.py"))]:
        digest.update(source.name.encode())
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def cache_dir(folder: Path) -> Path:
    """Return where the kernels of `folder` are cached: one folder for each state of the sources.

    `NUMBA_CACHE_DIR` is honoured; otherwise it lies in the user's cache folder.
    """
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    root = Path(chosen) if chosen else user_cache_dir()
    return root / f"numba-{sources_hash(folder)}"


@contextmanager
def _numba_cache_at(folder: Path) -> Iterator[None]:
    """Point numba at `folder` while a kernel is declared, and leave others' kernels alone."""
    before = _config.CACHE_DIR
    _config.CACHE_DIR = str(folder)
    try:
        yield
    finally:
        _config.CACHE_DIR = before


class Compiler:
    """The decorators for kernels whose sources lie in one folder.

    `entry` is for functions that Python calls: they are cached. `part` and `rare` are for functions
    that only kernels call: they have no way in from Python. Kernels hand their World on by
    reference (`refer`). They allocate nothing, so reference counts are left out: with them a call
    costs three times as much. Without a writable cache folder every process compiles anew.
    """

    def __init__(self, folder: Path) -> None:
        self.cache = cache_dir(folder)
        self.cached = not _config.DISABLE_JIT and is_writable(self.cache)

    def entry(self, function: F) -> F:
        """Compile a function that Python calls, on first use, and cache the result."""
        with _numba_cache_at(self.cache):
            compiled: F = _njit(cache=self.cached, **_ENTRY)(function)
        return compiled

    def part(self, function: F) -> F:
        """Compile a function into the kernels that call it, wherever they do."""
        compiled: F = _njit(forceinline=True, **_PART)(function)
        return compiled

    def rare(self, function: F) -> F:
        """Compile a function into the kernels that call it, apart: seldom called, or large.

        One that is called often and in one place is better a `part`; the more copies of a large
        one, the longer LLVM takes.
        """
        compiled: F = _njit(forceinline=False, **_PART)(function)
        return compiled

    def windowed(self, function: F) -> F:
        """Compile a `rare` function for Worlds whose layers attend windows, and for no others.

        Most models have none, and neither the time to compile it nor its place in the kernel
        is theirs.
        """
        compiled: F = _njit(forceinline=False, **_WINDOWED)(function)
        return compiled

    def inlined(self, function: F) -> F:
        """Copy a function into its callers: for results that cannot be returned, like records."""
        compiled: F = _njit(inline="always", **_PART)(function)
        return compiled


_KERNELS = Compiler(KERNEL_SOURCES)
entry = _KERNELS.entry
part = _KERNELS.part
rare = _KERNELS.rare
windowed = _KERNELS.windowed
inlined = _KERNELS.inlined


def compiled_before(module: str = "vllm_v1") -> bool:
    """Return whether the compiled code of a kernel module's entries is in the cache."""
    return bool(_config.DISABLE_JIT) or any(_KERNELS.cache.glob(f"**/{module}.*.nbi"))
