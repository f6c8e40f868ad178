"""The schema, the manual and the code say the same."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema

from planner.ingest import reasons
from planner.ingest.classes import MATCHABLE
from planner.ingest.detect import NAMES
from planner.ingest.formats import FORMATS, canonical
from planner.ingest.sql import TOKEN_COLUMNS


def test_schema_is_valid_and_samples_obey_it(root: Path) -> None:
    schema = json.loads((root / "schemas" / "trace.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    sample = root / "tests" / "ingest" / "samples" / "canonical.jsonl"
    for line in sample.read_text(encoding="utf-8").splitlines():
        jsonschema.validate(json.loads(line), schema)
    names = [name for column in canonical.ALIASES.values() for name in column]
    assert len(names) == len(set(names)), "a name must mean one thing"
    assert all(canonical.normalised(name) == name for name in names)
    for name, column in schema["properties"].items():
        assert column["description"], name
        if "integer" in column["type"] and name.endswith("tokens"):
            assert column["x-unit"] == "tokens"
    assert schema["properties"]["input_tokens"]["maximum"] == reasons.MAX_TOKENS


def test_the_manual_names_every_format_reason_and_mark(root: Path) -> None:
    text = (root / "docs" / "traces.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([^`\s]+)`", text))
    assert set(NAMES) <= named
    for reason in reasons.REASONS.values():
        family = re.sub(r"^(in|out)put_tokens_", "…_", reason.name)
        assert reason.name in named or family in named, reason.name
    assert {name for name, _ in reasons.FLAGS.values()} <= named
    assert set(canonical.ALIASES) - {"time"} <= named


def test_reason_codes_and_names_are_unique_and_fit_a_byte() -> None:
    names = [reason.name for reason in reasons.REASONS.values()]
    assert len(set(names)) == len(names)
    assert all(0 < code < 256 for code in reasons.REASONS)
    assert max(reasons.FLAGS) < 256


def test_formats_have_unique_names_and_map_what_is_needed() -> None:
    assert len({fmt.name for fmt in FORMATS}) == len(FORMATS)
    known = {*canonical.ALIASES, "keep", "chat_id", "parent_chat_id"}
    for fmt in FORMATS:
        assert fmt.requires, fmt.name
        if not fmt.unusable:
            assert set(canonical.NEEDED) <= set(fmt.fields) <= known, fmt.name
            assert fmt.because, fmt.name
            assert fmt.time_base in ("absolute", "relative"), fmt.name


def test_classes_match_on_canonical_columns() -> None:
    assert set(MATCHABLE) <= set(canonical.ALIASES)
    assert set(TOKEN_COLUMNS) <= set(MATCHABLE)


def test_slo_schema_matches_only_on_columns_that_exist(root: Path) -> None:
    schema = json.loads((root / "schemas" / "slo.schema.json").read_text(encoding="utf-8"))
    assert set(schema["$defs"]["match"]["properties"]) <= set(MATCHABLE)
