"""Which of the planner's files a document is, so that the wrong one is answered in one sentence."""

from __future__ import annotations

from collections.abc import Mapping

from planner.errors import InputError, Problem
from planner.spec.document import Document
from planner.spec.schema import load_schema

# By schema: what the file is called, and which command takes it.
KINDS = {
    "slo": ("an slo.yaml", "planner recommend --slo {file} takes it"),
    "fleet": ("a fleet.yaml", "planner fleet --config {file} takes it"),
    "synth": ("a recipe of traffic", "planner synth takes it"),
    "plan": ("a plan.json", "planner gate --plan {file} takes it"),
    "fleet-plan": ("a fleet.json, what planner fleet wrote", "its fleet.yaml is the file to give"),
}
LEAST_KEYS = 2  # that must be known before a file is taken for another


def kind_of(data: object) -> str:
    """Return the schema that knows most of a document's keys, "" where none knows half of them.

    >>> kind_of({"start": "2027-01-01", "inventory": {}, "services": {}})
    'fleet'
    >>> kind_of({"modell": "m"})
    ''
    """
    if not isinstance(data, Mapping):
        return ""
    known = {name: _known(data, name) for name in KINDS}
    best = max(known, key=lambda name: known[name])
    enough = known[best] >= LEAST_KEYS and 2 * known[best] >= len(data)
    return best if enough else ""


def refuse_other_kind(document: Document, wanted: str) -> None:
    """Refuse a file that is plainly another of the planner's, instead of naming all its keys.

    Parameters
    ----------
    document
        What was given.
    wanted
        The schema it was given as.

    Raises
    ------
    InputError
        Another schema knows more of its keys than the one wanted.
    """
    found = kind_of(document.data)
    data = document.data
    if not found or not isinstance(data, Mapping) or _known(data, found) <= _known(data, wanted):
        return
    name, hint = KINDS[found]
    message = f"this is {name}, not {KINDS[wanted][0]}"
    raise InputError(
        Problem(message=message, file=document.file, hint=hint.format(file=document.file))
    )


def _known(data: Mapping[str, object], schema: str) -> int:
    return len(set(data) & set(load_schema(schema)["properties"]))
