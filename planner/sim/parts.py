"""How numba compiles the parts of a kernel: once, in the kernel that Python calls.

numba optimises every function and turns it into machine code, although a part is only ever used
inside another, and does so again in each that uses it: most of the time to compile a kernel went
there. Here a part ends as plain LLVM code, and the kernel that it is linked into optimises it.
"""

# numba is typed in part; what it leaves untyped is used here.
# mypy: disable-error-code="no-untyped-call, untyped-decorator, misc, override, attr-defined"

from __future__ import annotations

from typing import Any

from numba.core import types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import NativeLowering


class _PartLibrary(JITCodeLibrary):
    """LLVM code that waits to be linked into a kernel."""

    def _optimize_functions(self, ll_module: Any) -> None:  # noqa: ANN401 - llvmlite has no types
        ll_module.data_layout = self._codegen._data_layout  # noqa: SLF001 - inherited

    def _optimize_final_module(self) -> None:
        """Leave it to the kernel."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class _PartLowering(NativeLowering):
    """Lower a part to LLVM code, without machine code."""

    _name = "part_lowering"

    def run_pass(self, state: Any) -> bool:  # noqa: ANN401
        state.library = _PartLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        state.flags.no_compile = True
        super().run_pass(state)
        lowered = state["cr"].fndesc
        if not state.flags.forceinline:  # LLVM would copy it all the same
            function = state.library.get_function(lowered.mangled_name)
            function.add_function_attribute("noinline")
        # numba wants a callable of its own for every function: no kernel calls it.
        stand_in: Any = [].append
        state["cr"] = state["cr"]._replace(cfunc=stand_in)
        state.targetctx.insert_user_function(stand_in, lowered, [state.library])
        return True


class PartCompiler(Compiler):
    """numba's compiler with another last step."""

    def define_pipelines(self) -> list[Any]:
        """Return numba's passes; pointers among the arguments name different things."""
        self.state.flags.noalias = True
        pipelines: list[Any] = super().define_pipelines()
        for each in pipelines:
            each.passes = [
                (_PartLowering if step is NativeLowering else step, why)
                for step, why in each.passes
            ]
            each._finalized = False  # noqa: SLF001 - it was, with the other lowering
            each.finalize()
        return pipelines


def _nothing_1(_world: Any) -> int:  # noqa: ANN401
    return 0


def _nothing_2(_world: Any, _first: int) -> int:  # noqa: ANN401
    return 0


def _nothing_3(_world: Any, _first: int, _second: int) -> int:  # noqa: ANN401
    return 0


def _nothing_4(_world: Any, _first: int, _second: int, _third: int) -> int:  # noqa: ANN401
    return 0


_NOTHING = {1: _nothing_1, 2: _nothing_2, 3: _nothing_3, 4: _nothing_4}


class WindowCompiler(PartCompiler):
    """Compiles what is done for layers' windows; nothing for a World whose layers have none.

    Such a World counts nothing that is shed: its `shed` has not the integers to count with.
    """

    def compile_extra(self, function: Any) -> Any:  # noqa: ANN401
        """Compile the function, or one of as many arguments that does nothing."""
        world = self.state.args[0].target
        if world.types[world.fields.index("shed")].dtype == types.int64:
            return super().compile_extra(function)
        self.state.flags.forceinline = True
        return super().compile_extra(_NOTHING[len(self.state.args)])
