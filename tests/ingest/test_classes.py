"""Workload classes: first match wins, conditions on canonical columns, nothing matched silently."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from planner.errors import InputError, Problem
from planner.ingest.classes import condition
from planner.ingest.load import load_trace
from planner.spec.slo import WorkloadClass

TEXT = """arrival_s,input_tokens,output_tokens,class,model,tenant,session_id,cached_tokens
0,100,10,chat,m1,acme,7,0
1,5000,20,rag,m1,acme,8,512
2,200,600,chat,m2,O'Brien & co,7,0
3,50,5,,m2,beta,,0
"""
Write = Callable[..., str]


def named(name: str, **match: object) -> WorkloadClass:
    return WorkloadClass(name=name, targets=(), match=match)


def assigned(path: str, *classes: WorkloadClass) -> list[str]:
    requests = load_trace([path], classes=classes).requests
    return [requests.class_names[number] for number in requests.class_id]


@pytest.mark.parametrize(
    ("match", "rows"),
    [
        ({"class": "chat"}, [0, 2]),
        ({"class": ["chat", "rag"]}, [0, 1, 2]),
        ({"model": "m2"}, [2, 3]),
        ({"tenant": "O'Brien & co"}, [2]),
        ({"session_id": 7}, [0, 2]),
        ({"session_id": ["7", "8"]}, [0, 1, 2]),
        ({"input_tokens": 100}, [0]),
        ({"input_tokens": [100, 50]}, [0, 3]),
        ({"input_tokens": {"min": 100, "max": 200}}, [0, 2]),
        ({"output_tokens": {"min": 20}}, [1, 2]),
        ({"output_tokens": {"max": 10}}, [0, 3]),
        ({"cached_tokens": {"min": 1}}, [1]),
        ({"class": "chat", "output_tokens": {"min": 11}}, [2]),
        ({"model": "m1", "tenant": ["acme", "beta"]}, [0, 1]),
    ],
)
def test_conditions(write: Write, match: Mapping[str, object], rows: list[int]) -> None:
    path = write("t.csv", TEXT)
    expected = ["wanted" if row in rows else "rest" for row in range(4)]
    assert assigned(path, named("wanted", **match), named("rest")) == expected


def test_first_match_wins(write: Write) -> None:
    path = write("t.csv", TEXT)
    classes = (named("long", input_tokens={"min": 5000}), named("m1", model="m1"), named("rest"))
    assert assigned(path, *classes) == ["m1", "long", "rest", "rest"]


def test_one_class_without_conditions_takes_all(write: Write) -> None:
    assert assigned(write("t.csv", TEXT), named("everything")) == ["everything"] * 4


def test_without_declared_classes_the_column_decides(write: Write) -> None:
    trace = load_trace([write("t.csv", TEXT)])
    assert trace.requests.class_names == ("chat", "rag", "unclassified")
    assert trace.requests.class_id.tolist() == [0, 1, 0, 2]
    assert any("unclassified" in text for text in trace.report.assumptions)


def test_a_class_column_of_labels_is_no_class_column(write: Write) -> None:
    rows = "".join(f"{i},5,5,label{i}\n" for i in range(30))
    trace = load_trace([write("t.csv", "arrival_s,input_tokens,output_tokens,class\n" + rows)])
    assert trace.requests.class_names == ("all",)
    assert any("more than 20 values" in text for text in trace.report.assumptions)


def test_requests_of_no_class_are_counted_and_left_out(write: Write) -> None:
    trace = load_trace([write("t.csv", TEXT)], classes=[named("chat", **{"class": "chat"})])
    assert trace.requests.input_tokens.tolist() == [100, 200]
    (entry,) = trace.report.rejected
    assert (entry["reason"], entry["count"]) == ("no_class", 2)
    assert "multiply sample_rate" in str(entry["effect"])
    assert trace.report.requests_seen == 4


def problems(path: str, *classes: WorkloadClass) -> tuple[Problem, ...]:
    with pytest.raises(InputError) as caught:
        load_trace([path], classes=classes)
    return caught.value.problems


def test_a_class_without_requests_shows_what_there_is(write: Write) -> None:
    path = write("t.csv", TEXT)
    (problem,) = problems(path, named("bots", tenant="gamma"), named("rest"))
    assert problem.path == "class bots"
    assert "tenant: gamma" in problem.message
    assert "tenant has acme (2), O'Brien & co (1), beta (1)" in problem.message
    (problem,) = problems(path, named("huge", input_tokens={"min": 9000}), named("rest"))
    assert "input_tokens: {min: 9000}" in problem.message
    assert "runs from 50 to 5,000" in problem.message


def test_every_empty_class_is_reported_at_once(write: Write) -> None:
    found = problems(write("t.csv", TEXT), named("a", tenant="x"), named("b", model="y"))
    assert [problem.path for problem in found] == ["class a", "class b"]


def test_a_shadowed_class_is_told_so(write: Write) -> None:
    (problem,) = problems(write("t.csv", TEXT), named("all"), named("chat", **{"class": "chat"}))
    assert "2 rows would" in problem.message
    assert "earlier class" in problem.message


def test_a_class_matched_on_a_missing_column_is_told_the_columns_there_are(write: Write) -> None:
    text = "arrival_s,input_tokens,output_tokens,tier\n0,5,5,gold\n"
    (problem,) = problems(write("t.csv", text), named("gold", tenant="gold"))
    assert problem.message == "the trace has no such column"
    assert "matched on input_tokens, output_tokens here" in problem.hint
    assert "arrival_s, input_tokens, output_tokens, tier" in problem.hint


@pytest.mark.parametrize(
    ("match", "word"),
    [
        ({"tenant": "x"}, "the trace has no such column"),
        ({"colour": "red"}, "no such column"),
        ({"input_tokens": {"above": 5}}, "min, max or both"),
        ({"input_tokens": {}}, "min, max or both"),
        ({"input_tokens": "many"}, "not a number"),
        ({"input_tokens": float("nan")}, "not a number"),
        ({"input_tokens": []}, "empty list"),
        ({"class": {"min": 5}}, "no range"),
    ],
)
def test_conditions_that_cannot_be_met(
    write: Write, match: Mapping[str, object], word: str
) -> None:
    text = "arrival_s,input_tokens,output_tokens,class\n0,5,5,chat\n"
    (problem,) = problems(write("t.csv", text), named("bad", **match))
    assert word in problem.message
    assert problem.path == f"class bad: match.{next(iter(match))}"
    assert problem.hint


@pytest.mark.parametrize(
    "value", ["' OR true --", "'; DROP TABLE x; --", "\\' OR 1=1", "a''b", '"']
)
def test_values_cannot_leave_their_quotes(write: Write, value: str) -> None:
    (problem,) = problems(write("t.csv", TEXT), named("evil", tenant=value))
    assert "no request matches" in problem.message


def test_a_value_with_quotes_is_found(write: Write) -> None:
    import csv
    import io

    out = io.StringIO()
    csv.writer(out).writerows([["arrival_s", "input_tokens", "output_tokens", "tenant"],
                               [0, 5, 5, "' OR true --"], [1, 5, 5, "x"]])  # fmt: skip
    classes = (named("evil", tenant="' OR true --"), named("rest"))
    assert assigned(write("t.csv", out.getvalue()), *classes) == ["evil", "rest"]


def test_condition_is_false_rather_than_null() -> None:
    sql = condition(named("x", tenant="a"), frozenset({"tenant"}))
    assert sql == "coalesce(\"tenant\" IN ('a'), false)"
