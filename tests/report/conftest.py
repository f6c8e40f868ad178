from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from planner.solve.plan import Plan


def _load(name: str) -> ModuleType:
    """Load a helper beside this file; importlib mode keeps test folders off sys.path."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


EXAMPLE, EDGES = _load("example_plan"), _load("edge_plans")


@pytest.fixture
def example() -> Callable[..., Plan]:
    """Builds the example plan, parts of it replaced by keyword."""
    return EXAMPLE.example


@pytest.fixture(params=[None, *EDGES.EDGES], ids=lambda f: f.__name__ if f else "example")
def plan(request) -> Plan:
    """The example and every plan at an edge, one at a time."""
    whole = EXAMPLE.example()
    return request.param(whole) if request.param else whole


@pytest.fixture
def edge() -> Callable[[str], Plan]:
    """Builds one plan at an edge by its name."""
    return lambda name: getattr(EDGES, name)(EXAMPLE.example())
