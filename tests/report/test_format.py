from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.report import format as fmt

NUMBERS = (
    fmt.significant,
    fmt.count,
    fmt.signed,
    fmt.seconds,
    fmt.duration,
    fmt.milliseconds,
    fmt.gib,
    fmt.gb,
    fmt.kib,
    fmt.tokens,
    fmt.tokens_per_s,
    fmt.requests_per_s,
    fmt.usd,
    fmt.usd_fine,
    fmt.percent,
    fmt.band,
    fmt.probability,
    fmt.factor,
)


@pytest.mark.parametrize("function", NUMBERS, ids=lambda f: f.__name__)
@given(value=st.floats(width=32) | st.none() | st.integers(-(10**15), 10**15))
def test_every_number_becomes_one_short_line_without_exponent(function, value):
    text = function(value)
    assert text == text.strip()
    assert "\n" not in text
    assert not re.search(r"\de[+-]?\d", text)
    assert "-" not in text  # U+2212 is the minus sign
    if value is None or math.isnan(value):
        assert text == "n/a"


@given(st.floats(min_value=1e-9, max_value=1e9))
def test_seconds_read_back_within_three_digits(value):
    """Half a unit in the third digit is 0.5 %; minutes and hours show two digits at the least."""
    units = {"µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "days": 86400.0}
    number, unit = fmt.seconds(value).split(" ")
    again = float(number.replace(",", "")) * units[unit]
    tolerance = 0.0051 if unit in {"µs", "ms", "s"} else 0.051
    assert again == pytest.approx(value, rel=tolerance)


@given(st.floats(min_value=0.0, max_value=1.0, exclude_max=True))
def test_a_share_below_one_is_never_shown_as_all(value):
    assert fmt.percent(value) != "100 %" or value > 1 - 1e-15


def test_gib_and_gb_are_never_mixed():
    assert fmt.gib(80e9) == "74.51 GiB"
    assert fmt.gb(80e9) == "80.00 GB"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.9994, "999 ms"), (0.9996, "1 s"), (120.0, "120 s"), (130.0, "2.2 min"), (0.0, "0 s")],
)
def test_unit_changes_fall_where_the_digits_do(value, text):
    assert fmt.seconds(value) == text
