"""The only place that turns SI numbers into text: one function a unit, "n/a" for what is not known.

GiB is 2**30 bytes, GB is 10**9. Minus is U+2212, thousands are separated by commas.
"""

from __future__ import annotations

import math
from datetime import datetime, timedelta

from planner.report.words import METRICS
from planner.units import DAY_S, GB, GIB, HOUR_S, MICRO, MILLI, MINUTE_S

UNKNOWN = "n/a"
LOADS_SOUGHT = 16.0  # multiples of the load that the distance to preemption is sought up to


def significant(value: float | None, digits: int = 3) -> str:
    """Write a number with `digits` significant digits, whole numbers in full.

    >>> significant(9.8449), significant(118.3), significant(12_613.4), significant(-0.02)
    ('9.84', '118', '12,613', '−0.02')
    """
    if value is None or math.isnan(value):
        return UNKNOWN
    if math.isinf(value):
        return "unbounded" if value > 0 else "−unbounded"
    decimals = 0 if value == 0 else max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{decimals}f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text == "-0" else text.replace("-", "−")


def count(value: float | None) -> str:
    """Write a whole number: 214,880.

    >>> count(214_880), count(1309.6), count(-2)
    ('214,880', '1,310', '−2')
    """
    if value is None or not math.isfinite(value):
        return significant(value)
    return f"{round(value):,}".replace("-", "−")


def whole(value: float | None) -> str:
    """Write a capacity: what fits, the part that does not fit cut off.

    >>> whole(153.9), whole(57.0), whole(1024)
    ('153', '57', '1,024')
    """
    return count(value if value is None or not math.isfinite(value) else math.floor(value + 1e-9))


def signed(value: float | None) -> str:
    """Write a whole difference with its sign.

    >>> signed(-2), signed(3), signed(0)
    ('−2', '+3', '±0')
    """
    if value is None or not math.isfinite(value):
        return significant(value)
    return "±0" if round(value) == 0 else ("+" if value > 0 else "") + count(value)


def seconds(value: float | None, digits: int = 3) -> str:
    """Write a latency or a step time in the unit that reads best.

    >>> seconds(0.0098), seconds(0.000042), seconds(2.0), seconds(90), seconds(600)
    ('9.8 ms', '42 µs', '2 s', '90 s', '10 min')
    """
    if value is None or not math.isfinite(value) or value == 0:
        return significant(value) if value != 0 else "0 s"
    for limit, unit, name in ((MILLI, MICRO, "µs"), (1.0, MILLI, "ms"), (121.0, 1.0, "s")):
        if abs(value) < limit * (1 - 5e-4):
            return f"{significant(value / unit, digits)} {name}"
    return duration(value)


def beyond_limit(value: float | None, limit: float) -> str:
    """Write a value above its limit, with as many digits as tell them apart.

    >>> beyond_limit(0.0712, 0.05), beyond_limit(1.504, 1.5), beyond_limit(float("nan"), 1.5)
    ('71.2 ms > 50 ms', '1.504 s > 1.5 s', 'unbounded > 1.5 s')
    """
    if value is None or not math.isfinite(value):
        return f"unbounded > {seconds(limit)}"
    texts = [(seconds(value, digits), seconds(limit, digits)) for digits in range(3, 8)]
    above, most = next((pair for pair in texts if pair[0] != pair[1]), texts[-1])
    return f"{above} > {most}"


def duration(value: float | None) -> str:
    """Write a span of a trace.

    >>> duration(3600), duration(604_799), duration(45), duration(3482)
    ('1 h', '7 days', '45 s', '58 min')
    """
    if value is None or not math.isfinite(value):
        return significant(value)
    for limit, unit, name in (
        (2 * MINUTE_S, 1.0, "s"),
        (HOUR_S, MINUTE_S, "min"),
        (2 * DAY_S, HOUR_S, "h"),
    ):
        if abs(value) < limit:
            return f"{significant(value / unit, 2 if value >= unit else 3)} {name}"
    return f"{significant(value / DAY_S, 2)} days"


def moment(start_s: float | None, origin: str) -> str:
    """Write a time of the trace: as a date where the trace has one, else from its first arrival.

    >>> moment(93_784.4, "2026-10-12T00:00:02+00:00"), moment(93_784.4, "")
    ('Tue 2026-10-13 02:03:06', '26:03:04 after the first arrival')
    """
    if start_s is None or not math.isfinite(start_s):
        return UNKNOWN
    if not origin:
        minutes, seconds_left = divmod(int(start_s), 60)
        return f"{minutes // 60}:{minutes % 60:02d}:{seconds_left:02d} after the first arrival"
    at = datetime.fromisoformat(origin) + timedelta(seconds=math.floor(start_s))
    day = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")[at.weekday()]
    return f"{day} {at:%Y-%m-%d %H:%M:%S}"


def milliseconds(value: float | None) -> str:
    """Write seconds as milliseconds, for tables whose column says ms.

    >>> milliseconds(0.02418)
    '24.2'
    """
    return significant(None if value is None else value / MILLI)


def gib(value: float | None) -> str:
    """Write bytes as GiB = 2**30 bytes.

    >>> gib(79.19 * 2**30)
    '79.19 GiB'
    """
    return UNKNOWN if value is None or math.isnan(value) else f"{_fixed(value / GIB, 2)} GiB"


def gb(value: float | None) -> str:
    """Write bytes as GB = 10**9 bytes.

    >>> gb(14e9)
    '14.00 GB'
    """
    return UNKNOWN if value is None or math.isnan(value) else f"{_fixed(value / GB, 2)} GB"


def kib(value: float | None) -> str:
    """Write bytes as KiB where that is whole enough, else as bytes.

    >>> kib(131_072), kib(656)
    ('128 KiB', '656 B')
    """
    if value is None or math.isnan(value):
        return UNKNOWN
    return f"{significant(value / 1024, 4)} KiB" if value >= 1024 else f"{significant(value)} B"


def tokens(value: float | None) -> str:
    """Write a token count with its unit.

    >>> tokens(1536), tokens(1)
    ('1,536 tokens', '1 token')
    """
    return _with_unit(count(value), "token" if value is not None and value == 1 else "tokens")


def tokens_per_s(value: float | None) -> str:
    """Write a token rate.

    >>> tokens_per_s(10_512.3), tokens_per_s(88.4)
    ('10,512 tokens/s', '88.4 tokens/s')
    """
    return _with_unit(significant(value), "tokens/s")


def requests_per_s(value: float | None, digits: int = 3) -> str:
    """Write a request rate.

    >>> requests_per_s(5.5304)
    '5.53 requests/s'
    """
    return _with_unit(significant(value, digits), "requests/s")


def usd(value: float | None) -> str:
    """Write an amount of US dollars.

    >>> usd(14.07), usd(10_271.1), usd(0.314), usd(-2930.4)
    ('$14.07', '$10,271', '$0.31', '−$2,930')
    """
    if value is None or not math.isfinite(value):
        return significant(value)
    amount = f"{abs(value):,.0f}" if abs(value) >= 1000 else f"{abs(value):.2f}"
    return ("−$" if value < 0 else "$") + amount


def usd_exact(value: float | None) -> str:
    """Write an amount so that sums can be checked: cents wherever there are any.

    >>> usd_exact(730.0), usd_exact(55_954.5), usd_exact(-12.25)
    ('$730', '$55,954.50', '−$12.25')
    """
    if value is None or not math.isfinite(value):
        return significant(value)
    amount = f"{abs(value):,.2f}".removesuffix(".00")
    return ("−$" if value < 0 and amount != "0" else "$") + amount


def usd_fine(value: float | None) -> str:
    """Write a price of little: two significant digits below ten cents.

    >>> usd_fine(0.0243), usd_fine(0.4)
    ('$0.024', '$0.40')
    """
    if value is None or not math.isfinite(value) or not 0 < value < 0.1:
        return usd(value)
    return f"${significant(value, 2)}"


def percent(value: float | None, digits: int = 3) -> str:
    """Write a share; what is not quite all or nothing is not rounded to it.

    >>> percent(0.981), percent(0.1), percent(1.0), percent(0.99996), percent(1.34)
    ('98.1 %', '10 %', '100 %', '99.996 %', '134 %')
    >>> percent(-math.inf)  # the margin of what never ends
    '−∞'
    """
    if value == -math.inf:
        return "−∞"
    if value is None or not math.isfinite(value):
        return significant(value)
    if 0.995 < value < 1:
        digits = max(digits, 1 - math.floor(math.log10(1 - value)))
    return f"{significant(100 * value, digits)} %"


def band(value: float | None) -> str:
    """Write a relative half-width.

    >>> band(0.09), band(None)
    ('±9 %', 'n/a')
    """
    return UNKNOWN if value is None or math.isnan(value) else f"±{percent(value, 2)}"


def probability(value: float | None) -> str:
    """Write a probability, tiny ones as a bound.

    >>> probability(0.0312), probability(3e-9), probability(0.0)
    ('3.1 %', 'below 0.01 %', 'below 0.01 %')
    """
    if value is None or math.isnan(value):
        return UNKNOWN
    return "below 0.01 %" if value < 1e-4 else percent(value, 2)


def factor(value: float | None) -> str:
    """Write a multiple.

    >>> factor(1.2138)
    '1.21×'
    """
    return _with_unit(significant(value), "×", space="")


def margin_step(value: float | None) -> str:
    """Write a load above the needed one.

    >>> margin_step(0.0), margin_step(0.15)
    ('that load', '+15 %')
    """
    return "that load" if value == 0.0 else f"+{percent(value)}"


def load_limit(value: float | None) -> str:
    """Write the load at which something gives way; nothing is sought beyond LOADS_SOUGHT.

    >>> load_limit(2.36), load_limit(16.0)
    ('2.36×', 'beyond 16×')
    """
    text = factor(value)
    return f"beyond {text}" if value is not None and value >= LOADS_SOUGHT else text


def percentile(value: float | None) -> str:
    """Write which percentile.

    >>> percentile(99.0), percentile(99.9)
    ('p99', 'p99.9')
    """
    return UNKNOWN if value is None or math.isnan(value) else f"p{value:g}"


def metric(value: str) -> str:
    """Write a metric's name as people say it.

    >>> metric("ttft_s"), metric("other")
    ('TTFT', 'other')
    """
    return METRICS.get(value, value)


def on_off(value: bool) -> str:
    """Write a switch."""
    return "on" if value else "off"


def number_range(low: float | None, high: float | None) -> str:
    """Write two whole numbers as a range, one where they are equal; None above has no number.

    >>> number_range(6, 8), number_range(7, 7), number_range(6, None)
    ('6 to 8', '7', '6 to no count that holds')
    """
    if high is None and low is not None:
        return f"{count(low)} to no count that holds"
    return count(low) if low == high else f"{count(low)} to {count(high)}"


def plain(value: object) -> str:
    """Write whatever was declared, as it was declared.

    >>> plain(0.05), plain(True), plain(None), plain([1, 2]), plain("a")
    ('0.05', 'true', 'not set', '1, 2', 'a')
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return f"{value:g}" if isinstance(value, float) else str(value)
    if isinstance(value, (list, tuple)):
        return ", ".join(plain(item) for item in value) or "not set"
    if isinstance(value, dict):
        return ", ".join(f"{key}: {plain(item)}" for key, item in value.items()) or "not set"
    return "not set" if value is None or value == "" else str(value)


def _fixed(value: float, decimals: int) -> str:
    return f"{value:,.{decimals}f}".replace("-", "−")


def _with_unit(text: str, unit: str, space: str = " ") -> str:
    return text if text == UNKNOWN else f"{text}{space}{unit}"
