"""Reading files: YAML 1.2 and JSON, places, and everything a file can be instead."""

import json
import math
import os
import string
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.errors import InputError
from planner.spec.load import MAX_BYTES, expanded, parse_document, read_document, scan_document

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
DATA = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        # YAML 1.2 limits a key on one line to 1,024 characters; an escape has up to twelve.
        | st.dictionaries(st.text(max_size=60), inner, max_size=4)
    ),
    max_leaves=12,
)
NOT_IN_YAML = {*map(chr, range(32)), *map(chr, range(127, 160)), *"\u2028\u2029\ufffe\uffff"}


def messages(text, file="f.yaml"):
    with pytest.raises(InputError) as caught:
        parse_document(text, file)
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", "no"),
        ("yes", "yes"),
        ("on", "on"),
        ("off", "off"),
        ("y", "y"),
        ("true", True),
        ("False", False),
        ("tRUE", "tRUE"),
        ("~", None),
        ("", None),
        ("null", None),
        ("1e3", 1000.0),
        ("1E-3", 0.001),
        ("1.", 1.0),
        (".5", 0.5),
        ("+12", 12),
        ("0123", 123),
        ("0o17", 15),
        ("0x1F", 31),
        ("0b11", "0b11"),
        ("1_000", "1_000"),
        ("12:30:00", "12:30:00"),
        ("1:30", "1:30"),
        ("2026-10-12", "2026-10-12"),
        ("2026-10-12T00:00:00Z", "2026-10-12T00:00:00Z"),
        ("0.10", 0.1),
        ("1.2.3", "1.2.3"),
        (".inf", float("inf")),
        ("-.INF", float("-inf")),
        ("=", "="),
        ("'1'", "1"),
        ('"true"', "true"),
        ("!!str 5", "5"),
    ],
)
def test_yaml_1_2_scalars(text, value):
    read = parse_document(f"key: {text}\n", "f.yaml").data["key"]
    assert read == value
    assert type(read) is type(value)


def test_not_a_number_is_read_as_such():
    value = parse_document("key: .nan\n", "f.yaml").data["key"]
    assert math.isnan(value)


def test_keys_are_always_text():
    data = parse_document("1: a\n0.50: b\nno: c\nnull: d\ntrue: e\n", "f.yaml").data
    assert data == {"1": "a", "0.50": "b", "no": "c", "null": "d", "true": "e"}


def test_raw_text_of_a_number_is_kept():
    document = parse_document("version: 0.10\n", "f.yaml")
    assert document.data == {"version": 0.1}
    assert document.raw(("version",)) == "0.10"


def test_places():
    document = parse_document("a: 1\nlist:\n  - x\n  - {b: 2, c: 3}\n'k e y':\n  d: 4\n", "f.yaml")
    assert document.place(()) == (1, 1)
    assert document.place(("a",)) == (1, 4)
    assert document.key_place(("a",)) == (1, 1)
    assert document.place(("list", 0)) == (3, 5)
    assert document.key_place(("list", 0)) == (3, 5)
    assert document.place(("list", 1, "c")) == (4, 15)
    assert document.key_place(("list", 1, "c")) == (4, 12)
    assert document.place(("k e y", "d")) == (6, 6)
    assert document.place(("k e y", "missing")) == (6, 3)  # the nearest parent
    assert document.place(("list", 9)) == (3, 3)


def test_aliases_are_expanded_and_keep_the_place_of_the_anchor():
    document = parse_document("a: &x {p99: 4}\nb: *x\n", "f.yaml")
    assert document.data == {"a": {"p99": 4}, "b": {"p99": 4}}
    assert document.data["a"] is not document.data["b"]
    assert document.place(("b", "p99")) == (1, 13)
    assert document.key_place(("b",)) == (2, 1)


def test_all_duplicate_keys_are_found_and_the_first_value_stands():
    document = parse_document("a: 1\nb: {c: 1, c: 2}\na: 3\n'a': 4\n", "f.yaml")
    assert document.data == {"a": 1, "b": {"c": 1}}
    assert [str(problem) for problem in document.problems] == [
        "f.yaml:2:11: key 'c' is written twice (first at line 2; remove one)",
        "f.yaml:3:1: key 'a' is written twice (first at line 1; remove one)",
        "f.yaml:4:1: key 'a' is written twice (first at line 1; remove one)",
    ]


def test_read_raises_where_scan_only_notes(tmp_path):
    file = tmp_path / "f.yaml"
    file.write_text("a: 1\na: 2\n")
    assert len(scan_document(file).problems) == 1
    with pytest.raises(InputError, match="written twice"):
        read_document(file)


def test_aliases_cannot_fill_the_memory():
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    assert "more than a million" in messages("\n".join(lines))[0]


def test_nesting_is_bounded_in_both_formats():
    assert "nested deeper" in messages("[" * 500)[0]
    assert "nested deeper" in messages("[" * 500, "f.json")[0]


def test_a_byte_order_mark_and_windows_line_ends_do_no_harm(tmp_path):
    file = tmp_path / "f.yaml"
    file.write_bytes(b"\xef\xbb\xbfa: 1\r\nb:\r\n  c: 2\r\n")
    document = read_document(file)
    assert document.data == {"a": 1, "b": {"c": 2}}
    assert document.place(("b", "c")) == (3, 6)


def test_columns_count_characters_not_bytes():
    document = parse_document("é: {ü: ö}\n", "f.yaml")
    assert document.place(("é", "ü")) == (1, 8)


@pytest.mark.parametrize("name", ["f.yaml", "f.json"])
def test_half_a_character_is_refused(name):
    assert "half a character" in messages('["\\ud800"]', name)[0]
    assert parse_document('["\\ud83d\\ude00"]', name).data == ["😀"]


def test_what_is_not_a_file(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_document(tmp_path / "missing.yaml")
    with pytest.raises(InputError, match="is a directory"):
        read_document(tmp_path)
    with pytest.raises(InputError, match="cannot be read"):
        read_document(Path("a\0b.yaml"))


@pytest.mark.skipif(
    sys.platform == "win32" or os.geteuid() == 0, reason="root and Windows may read any file"
)
def test_no_permission(tmp_path):
    file = tmp_path / "f.yaml"
    file.write_text("a: 1\n")
    file.chmod(0)
    with pytest.raises(InputError, match="cannot be read: Permission denied"):
        read_document(file)


def test_no_permission_for_the_folder(tmp_path, monkeypatch):
    """Root may read any folder, so the system's refusal is played."""

    def deny(*args, **options):
        raise PermissionError(13, "Permission denied")

    for name in ("stat", "open"):
        monkeypatch.setattr(Path, name, deny)
    with pytest.raises(InputError, match="cannot be read: Permission denied"):
        read_document(tmp_path / "locked" / "f.yaml")


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="this system has no /dev/zero")
def test_a_device_without_end_is_refused():
    with pytest.raises(InputError, match="larger than 64 MiB"):
        read_document(Path("/dev/zero"))


def test_a_home_of_nobody():
    assert expanded("~nobody-of-that-name/f.yaml") == Path("~nobody-of-that-name/f.yaml")
    assert expanded("~/f.yaml") == Path.home() / "f.yaml"


def test_a_huge_file_is_refused_before_it_is_read(tmp_path):
    file = tmp_path / "f.yaml"
    with file.open("wb") as handle:
        handle.truncate(MAX_BYTES + 1)  # sparse: takes no space
    with pytest.raises(InputError, match="larger than 64 MiB"):
        read_document(file)


def test_tabs_are_allowed_where_json_allows_them():
    document = parse_document('{\n\t"a":\t[1,\t2]\n}\n', "f.json")
    assert document.data == {"a": [1, 2]}
    assert document.place(("a", 1)) == (2, 11)


@pytest.mark.parametrize(
    "text", ["{'a': 1}", "[01]", "[1.]", "[.5]", "[+1]", "[1,]", "{,}", '{"a" 1}', "[1] x", "tru"]
)
def test_json_is_not_yaml(text):
    assert messages(text, "f.json")[0].startswith("f.json:1:")


@given(data=DATA, indent=st.sampled_from([None, 1, 4]), ascii_only=st.booleans())
def test_json_reads_what_json_writes(data, indent, ascii_only):
    text = json.dumps(data, indent=indent, ensure_ascii=ascii_only)
    if not ascii_only and NOT_IN_YAML & set(text) - {"\n"}:
        return  # control characters that a text file may not hold
    assert parse_document(text, "f.json").data == data
    assert parse_document(text, "f.yaml").data == data  # JSON is YAML 1.2


@given(data=DATA, indent=st.sampled_from([None, 2]), name=st.sampled_from(["f.json", "f.yaml"]))
def test_every_place_is_where_the_value_is_written(data, indent, name):
    text = json.dumps(data, indent=indent)
    document = parse_document(text, name)
    lines = text.split("\n")

    def walk(value, path):
        line, column = document.place(path)
        written = json.dumps(value, indent=None)
        start = written if not isinstance(value, dict | list) else written[0]
        assert lines[line - 1][column - 1 :].startswith(start)
        steps = value.items() if isinstance(value, dict) else ()
        steps = enumerate(value) if isinstance(value, list) else steps
        for step, item in steps:
            if isinstance(step, str):
                line, column = document.key_place((*path, step))
                assert lines[line - 1][column - 1 :].startswith(json.dumps(step))
            walk(item, (*path, step))

    walk(data, ())


@settings(max_examples=400)
@given(text=st.text(alphabet=[*":-{}[],&*!#|>'\"%@`?\\ \n\t~<=.", *"aA0xeU1", "\x85", "é"]))
def test_garbage_gives_a_problem_with_a_place_or_a_document(text):
    for name in ("f.yaml", "f.json"):
        found = ()
        try:
            found = parse_document(text, name).problems
        except InputError as error:
            found = error.problems
        assert all(problem.line >= 1 and problem.column >= 1 for problem in found)


@given(words=st.lists(st.text(alphabet=string.ascii_lowercase, min_size=1), min_size=1))
def test_plain_words_stay_text_unless_they_are_literals(words):
    text = "\n".join(f"- {word}" for word in words)
    literals = {"true": True, "false": False, "null": None}
    assert parse_document(text, "f.yaml").data == [literals.get(word, word) for word in words]
