"""Every public equation has a registered case, every case holds, and the documentation shows it."""

import inspect
import re

import pytest

from planner.perf import (
    cost,
    disaggregation,
    memory_equations,
    operators,
    preemption,
    queueing,
    speculation,
    theory,
)
from planner.perf.equations import EQUATIONS, SECTIONS, SYMBOLS

MODULES = (
    theory,
    operators,
    memory_equations,
    queueing,
    preemption,
    cost,
    speculation,
    disaggregation,
)
# Takes a list of acceptances, which no single symbol stands for; its doctest is its case.
BY_DOCTEST = {"tokens_per_step_by_position"}


def public_functions():
    return {
        name: function
        for module in MODULES
        for name, function in inspect.getmembers(module, inspect.isfunction)
        # the theory is a package of three modules
        if not name.startswith("_") and function.__module__.startswith(module.__name__)
    }


def test_every_public_equation_is_registered():
    missing = set(public_functions()) - set(EQUATIONS) - BY_DOCTEST
    assert not missing


def test_every_registered_equation_is_a_public_function():
    known = public_functions()
    known["attended_pairs"] = EQUATIONS["attended_pairs"].function
    for name, item in EQUATIONS.items():
        assert known[name] is item.function


@pytest.mark.parametrize("item", EQUATIONS.values(), ids=EQUATIONS)
def test_case_holds(item):
    # Six digits: the expected values are written with at least that many.
    assert float(item.function(**item.example)) == pytest.approx(item.expected, rel=2e-6)


@pytest.mark.parametrize("item", EQUATIONS.values(), ids=EQUATIONS)
def test_registration_is_complete(item):
    assert list(item.example) == list(inspect.signature(item.function).parameters)
    named = set(re.findall(r"\{(\w+)\}", item.template))
    assert named == set(item.example), "the formula shows every parameter and nothing else"
    assert named <= set(SYMBOLS)
    assert item.source, "the docstring names a source"
    assert ">>>" in item.function.__doc__
    assert item.title


def test_ids_and_aliases_are_unique():
    names = [name for item in EQUATIONS.values() for name in (item.id, *item.aliases)]
    assert len(names) == len(set(names))
    assert sum(len(section) for section in SECTIONS.values()) == len(EQUATIONS)


def test_related_equations_exist():
    for item in EQUATIONS.values():
        assert set(item.related) <= set(EQUATIONS)


def test_no_symbol_is_unused():
    used = {name for item in EQUATIONS.values() for name in item.example}
    assert set(SYMBOLS) == used
