"""The compiler of this folder's loops: an edit in any of them compiles all anew."""

from __future__ import annotations

from pathlib import Path

from planner.sim.jit import Compiler

_COMPILER = Compiler(Path(__file__).resolve().parent)
entry = _COMPILER.entry
part = _COMPILER.part
