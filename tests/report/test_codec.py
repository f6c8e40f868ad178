from __future__ import annotations

import dataclasses
import json
import math
import re
from dataclasses import fields, is_dataclass, replace
from typing import get_args, get_type_hints

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import InputError
from planner.report.codec import (
    dumps,
    plan_from_dict,
    plan_to_dict,
    read_plan,
    rounded,
    schema_problems,
)
from planner.solve import plan as plan_module
from planner.solve.plan import Plan


@pytest.fixture(scope="session")
def schema(root):
    return json.loads((root / "schemas" / "plan.schema.json").read_text(encoding="utf-8"))


def dataclasses_of(kind: type, found: dict[str, type]) -> dict[str, type]:
    """Every dataclass that a plan can hold, by name."""
    if is_dataclass(kind):
        if kind.__name__ not in found:
            found[kind.__name__] = kind
            for hint in get_type_hints(kind).values():
                dataclasses_of(hint, found)
    else:
        for inner in get_args(kind):
            if inner is not Ellipsis:
                dataclasses_of(inner, found)
    return found


HELD = dataclasses_of(Plan, {})
# Plans of older versions lack these, and are read all the same.
LATER = {
    "token_flops",
    "weight_bytes",
    "kv_read_bytes_per_token",
    "load_test",
    "peak",
    "unheld",
}


def test_every_dataclass_of_the_plan_module_is_part_of_a_plan():
    defined = {
        name
        for name, value in vars(plan_module).items()
        if is_dataclass(value) and value.__module__ == plan_module.__name__
    }
    assert defined <= set(HELD)


@pytest.mark.parametrize("name", sorted(HELD))
def test_schema_properties_are_the_dataclass_fields(schema, name):
    definition = schema if name == "Plan" else schema["$defs"][name]
    names = [field.name for field in fields(HELD[name])]
    assert list(definition["properties"]) == names
    assert definition["required"] == [each for each in names if each not in LATER]
    assert definition["additionalProperties"] is False


def test_schema_defines_nothing_else(schema):
    assert set(schema["$defs"]) == set(HELD) - {"Plan"}


@pytest.mark.parametrize("name", sorted(HELD))
def test_optional_fields_and_only_they_may_be_null(schema, name):
    """A float may be null as well: it is how a number that cannot be given is written."""
    definition = schema if name == "Plan" else schema["$defs"][name]
    for field, hint in get_type_hints(HELD[name]).items():
        wanted = type(None) in get_args(hint) or hint is float
        allowed = "null" in json.dumps(definition["properties"][field].get("type", ""))
        allowed |= any(
            "null" in json.dumps(o) for o in definition["properties"][field].get("anyOf", ())
        )
        assert allowed == wanted, field


def numeric_properties(node, name=""):
    """Yield (property name, subschema) of everything that may be a number, items included."""
    if isinstance(node, dict):
        kinds = node.get("type", ())
        kinds = {kinds} if isinstance(kinds, str) else set(kinds)
        if kinds & {"number", "integer"}:
            yield name, node
        for key, value in node.get("properties", {}).items():
            yield from numeric_properties(value, key)
        for key in ("items", "additionalProperties"):
            yield from numeric_properties(node.get(key), name)
        for definition in node.get("$defs", {}).values():
            yield from numeric_properties(definition)


# A property's suffix says its unit; the longest suffix that fits decides.
SUFFIX_UNITS = {
    "_tokens_per_s": "tokens/s",
    "_requests_per_s": "requests/s",
    "mean_per_s": "requests/s",
    "requests_per_s": "requests/s",
    "_flops_per_byte": "FLOP/byte",
    "_bytes_per_token": "bytes/token",
    "_usd_per_hour": "USD/h",
    "usd_per_hour": "USD/h",
    "usd_per_gpu_hour": "USD/h",
    "usd_per_month": "USD/month",
    "_tokens": "tokens",
    "_bytes": "bytes",
    "_seqs": "sequences",
    "_s": "s",
    "_share": "1",
}


def test_every_number_has_a_unit_that_agrees_with_its_suffix(schema):
    seen = list(numeric_properties(schema))
    assert len(seen) > 150
    for name, node in seen:
        assert node.get("x-unit"), f"{name} has no x-unit"
        suffixes = [s for s in SUFFIX_UNITS if name.endswith(s) or name == s]
        # A peak-to-mean ratio over 60 s and a Fano factor end in _s without being seconds.
        if suffixes and not re.search(r"_\d+s$", name):
            assert node["x-unit"] == SUFFIX_UNITS[max(suffixes, key=len)], name


def test_the_example_obeys_the_schema_and_comes_back(example):
    data = plan_to_dict(example())
    assert schema_problems(data) == []
    again = plan_from_dict(json.loads(dumps(data)))
    assert isinstance(again, Plan)
    assert plan_to_dict(again) == data
    assert dataclasses.is_dataclass(again.concurrency.memory)
    assert again.deployment == example().deployment


def test_same_plan_same_bytes_whatever_the_order_of_its_mappings(example):
    plan = example()
    turned = replace(plan, slo=dict(reversed(list(plan.slo.items()))))
    assert dumps(plan_to_dict(plan)) == dumps(plan_to_dict(turned))


def test_json_is_sorted_ends_with_a_newline_and_keeps_vectors_on_one_line(example):
    text = dumps(plan_to_dict(example()))
    assert text.endswith("}\n")
    assert json.loads(text) == plan_to_dict(example())
    assert list(json.loads(text)) == sorted(json.loads(text))
    assert len(text.splitlines()) < 1_600  # 4 × 168 hours and the histograms do not spread out


def test_numpy_scalars_are_written_as_numbers(example):
    plan = example(replicas=replace(example().replicas, value=np.int64(7)))
    plan = replace(plan, surge=replace(plan.surge, mean_prompt_tokens_per_s=np.float64(1.5)))
    data = plan_to_dict(plan)
    assert type(data["replicas"]["value"]) is int
    assert type(data["surge"]["mean_prompt_tokens_per_s"]) is float


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, np.float64("nan")])
def test_what_is_not_a_number_becomes_null_and_comes_back_as_nan(example, value):
    plan = example()
    plan = replace(plan, concurrency=replace(plan.concurrency, preemption_load_factor=value))
    data = plan_to_dict(plan)
    assert data["concurrency"]["preemption_load_factor"] is None
    assert schema_problems(data) == []
    assert math.isnan(plan_from_dict(data).concurrency.preemption_load_factor)


def test_a_value_no_json_holds_is_refused(example):
    with pytest.raises(TypeError, match="object"):
        plan_to_dict(example(slo={"model": object()}))


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_rounding_keeps_six_digits_or_whole_units(value):
    """Half a unit in the sixth digit, or half of one where the number is larger than that."""
    tolerance = max(0.5 if abs(value) >= 1e5 else 0.0, 5.1e-6 * abs(value))
    assert abs(rounded(value) - value) <= tolerance
    assert rounded(rounded(value)) == rounded(value)


def test_a_broken_plan_file_names_every_problem_with_its_place(example, tmp_path):
    data = plan_to_dict(example())
    data["verified"] = "guessed"
    data["replicas"]["value"] = -1
    del data["gpu_name"]
    path = tmp_path / "plan.json"
    path.write_text(dumps(data), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_plan(path)
    text = str(caught.value)
    assert len(caught.value.problems) == 3
    assert all(problem.file == str(path) and problem.line for problem in caught.value.problems)
    assert "verified" in text
    assert "replicas.value" in text
    assert "gpu_name" in text


def test_a_written_plan_file_is_read_back(example, tmp_path):
    path = tmp_path / "plan.json"
    path.write_text(dumps(plan_to_dict(example())), encoding="utf-8")
    assert plan_to_dict(read_plan(path)) == plan_to_dict(example())


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe"])
def test_an_unreadable_plan_file_is_one_input_error(tmp_path, content):
    path = tmp_path / "plan.json"
    path.write_bytes(content)
    with pytest.raises(InputError):
        read_plan(path)
    with pytest.raises(InputError):
        read_plan(tmp_path / "missing.json")
