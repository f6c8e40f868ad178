"""Whatever a log brings must come out as the text it is: judged by a Markdown parser."""

from __future__ import annotations

import html
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from planner.report.markdown import code, escape, fenced, one_line

# markdown-it-py comes with rich; HTML is switched on because forges accept it.
markdown_it = pytest.importorskip("markdown_it")
PARSER = markdown_it.MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "a|b",
    "![x](http://example.com/x.png)",
    "[click](javascript:alert(1))",
    "`code` and ``more``",
    "**bold** _it_ ~~gone~~",
    "# head",
    "- item",
    "---",
    "> quote",
    "&lt;b&gt; &amp; &copy;",
    "line\nbreak\r\n# head",
    "\u202egnp.exe",
    "a-name-that-is-exactly-forty-characters-x",
    "\\",
    "\\|",
    "<!-- comment",
    "</td><script>",
    "| --- | --- |",
    "__init__",
]


def text_of(page: str) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "", page))


def squeezed(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("hostile", HOSTILE)
def test_escaped_text_renders_as_itself(hostile):
    page = PARSER.render(str(escape(hostile)))
    assert set(re.findall(r"<(\w+)", page)) <= {"p"}
    assert squeezed(text_of(page)) == squeezed(one_line(hostile))


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60))
@example("1. one")
@example("    four spaces")
def test_any_text_renders_as_itself_inside_a_sentence(text):
    page = PARSER.render(f"Class {escape(text)} holds.")
    assert set(re.findall(r"<(\w+)", page)) <= {"p"}
    assert squeezed(text_of(page)) == squeezed(f"Class {one_line(text)} holds.")


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
@example("a|b")
@example("\\|")
def test_any_text_stays_in_its_table_cell(text):
    page = PARSER.render(f"| a | b |\n|---|---|\n| {escape(text)} | {code(text or 'x')} |\n")
    assert page.count("<td>") == 2
    assert set(re.findall(r"<(\w+)", page)) <= {"table", "thead", "tbody", "tr", "th", "td", "code"}


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40))
def test_a_code_span_holds_its_text(text):
    page = PARSER.render(f"x {code(text)} y")
    assert set(re.findall(r"<(\w+)", page)) == {"p", "code"}


@given(st.text("`~ab\n", max_size=30))
def test_nothing_closes_a_fence_from_inside(text):
    page = PARSER.render(f"{fenced(text, 'sh')}\n\nafter")
    assert page.count("<pre>") == 1
    assert page.rstrip().endswith("<p>after</p>")
