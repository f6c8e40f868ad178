"""Plan ↔ plan.json: plain data, fixed rounding, sorted keys, and the schema it obeys."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from planner.json_data import decode, encode
from planner.solve.plan import Plan
from planner.spec.load import raise_for, read_document
from planner.spec.schema import load_schema

SIGNIFICANT_DIGITS = 6


def plan_to_dict(plan: Plan) -> dict[str, Any]:
    """Return the plan as JSON data, numbers rounded as `rounded` says."""
    data = encode(plan, rounded)
    assert isinstance(data, dict)
    return data


def plan_from_dict(data: Mapping[str, Any]) -> Plan:
    """Return the plan that `data` describes; `plan_to_dict` of it is `data` again."""
    plan = decode(Plan, data)
    assert isinstance(plan, Plan)
    return plan


def dumps(data: Mapping[str, Any]) -> str:
    """Return JSON text: sorted keys, one value a line, lists of plain values on one line."""
    return _json(data, "\n") + "\n"


def _json(value: Any, newline: str) -> str:  # noqa: ANN401 - JSON data
    """Write `value`; `newline` carries the indentation of the line it stands on."""
    inner = newline + "  "
    if isinstance(value, Mapping) and value:
        items = (f"{_scalar(key)}: {_json(value[key], inner)}" for key in sorted(value))
        return "{" + inner + ("," + inner).join(items) + newline + "}"
    if isinstance(value, list) and any(isinstance(item, (Mapping, list)) for item in value):
        items = (_json(item, inner) for item in value)
        return "[" + inner + ("," + inner).join(items) + newline + "]"
    return _scalar(value)


def _scalar(value: Any) -> str:  # noqa: ANN401 - JSON data
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def read_plan(path: Path) -> Plan:
    """Return the plan in a plan.json, checked against the schema.

    Raises
    ------
    InputError
        The file cannot be read, is not JSON, is not a plan, or is a plan of a deployment that
        cannot be; every problem is named.
    """
    from planner.solve.deployed import contradictions
    from planner.spec.kinds import refuse_other_kind
    from planner.spec.validate import validate

    document = read_document(path)
    refuse_other_kind(document, "plan")
    raise_for(validate(document, "plan"))
    assert isinstance(document.data, dict)
    plan = plan_from_dict(document.data)
    raise_for(
        [document.problem(each.path, each.message, each.hint) for each in contradictions(plan)]
    )
    return plan


def schema_problems(data: object) -> list[tuple[str, str]]:
    """Return (path, message) of everything in `data` that `schemas/plan.schema.json` forbids."""
    errors = _validator().iter_errors(data)
    return sorted(("/".join(map(str, error.absolute_path)), error.message) for error in errors)


@cache
def _validator() -> Any:  # noqa: ANN401 - jsonschema is imported only when something is validated
    from jsonschema import Draft202012Validator

    return Draft202012Validator(dict(load_schema("plan")))


def rounded(value: float) -> float:
    """Round to six significant digits, never coarser than whole units (bytes stay bytes).

    >>> rounded(0.0123456789), rounded(79_186_755_584.4), rounded(1_234_567.8)
    (0.0123457, 79186755584.0, 1234568.0)
    """
    if value == 0 or not math.isfinite(value):
        return value
    decimals = SIGNIFICANT_DIGITS - 1 - math.floor(math.log10(abs(value)))
    return round(value, max(0, decimals)) + 0.0  # + 0.0 turns −0.0 into 0.0
