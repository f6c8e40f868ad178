"""Hand a kernel's named tuple on by reference.

numba passes a tuple of arrays by value, field by field. A kernel's World has over a hundred such
fields, and every call and every variable that names it would copy them all. A reference is one
pointer, and an attribute loads the one field it names. Plain Python hands on references anyway.
"""

# numba is typed in part; what it leaves untyped is used here.
# mypy: disable-error-code="no-untyped-call, untyped-decorator, misc, override, attr-defined"

from __future__ import annotations

import hashlib
from typing import Any, TypeVar

from numba.core import cgutils, config, types
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    infer_getattr,
    intrinsic,
    lower_getattr_generic,
    models,
    register_model,
)

T = TypeVar("T")


class Reference(types.Type):
    """The type of a reference to a named tuple of type `target`."""

    def __init__(self, target: Any) -> None:  # noqa: ANN401
        self.target = target
        # The whole name would be in the name of every function that takes one.
        digest = hashlib.sha256(target.name.encode()).hexdigest()[:16]
        super().__init__(f"Reference({target.instance_class.__name__}-{digest})")


@register_model(Reference)
class _ReferenceModel(models.PrimitiveModel):
    """A pointer to the tuple's struct."""

    def __init__(self, manager: Any, reference: Reference) -> None:  # noqa: ANN401
        struct = manager.lookup(reference.target).get_value_type()
        super().__init__(manager, reference, struct.as_pointer())


@infer_getattr
class _ReferenceAttribute(AttributeTemplate):
    """A reference has the attributes of what it refers to."""

    key = Reference

    def generic_resolve(self, reference: Reference, name: str) -> Any:  # noqa: ANN401
        target = reference.target
        return target.types[target.fields.index(name)] if name in target.fields else None


@lower_getattr_generic(Reference)
def _load(_context: Any, builder: Any, reference: Reference, pointer: Any, name: str) -> Any:  # noqa: ANN401
    """Load one field of the tuple."""
    place = reference.target.fields.index(name)
    return builder.load(cgutils.gep_inbounds(builder, pointer, 0, place))


@intrinsic
def _reference_to(_typing: Any, value: Any) -> Any:  # noqa: ANN401
    def store(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:  # noqa: ANN401
        place = cgutils.alloca_once(builder, arguments[0].type)
        builder.store(arguments[0], place)
        return place

    return Reference(value)(value), store


def _itself(value: T) -> T:
    return value


# Return a reference to a named tuple; it lives as long as the kernel that asks for it runs.
refer: Any = _itself if config.DISABLE_JIT else _reference_to
