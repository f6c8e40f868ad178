"""Findings as text, as Markdown and as plain data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from planner.reproduce.claim import CAUSES, FAIL, NOT_REPRODUCIBLE, PASS, Band, Finding


def figure(value: float) -> str:
    """Return a figure with three digits, four where it is an integer of five or more.

    >>> figure(0.5254), figure(12.49), figure(66144.0), figure(1863.26)
    ('0.525', '12.5', '66,140', '1,863')
    """
    if not math.isfinite(value):
        return "∞"
    if value and abs(value) < 0.01:
        return f"{value:.3g}"
    digits = 4 if abs(value) >= 1000.0 else 3
    exponent = math.floor(math.log10(abs(value))) if value else 0
    decimals = max(digits - 1 - exponent, 0)
    rounded = round(value, digits - 1 - exponent)
    return f"{rounded:,.{decimals}f}"


def band_text(band: Band | None) -> str:
    """Return a band as the range it is.

    >>> band_text(Band(low=1.0, high=math.inf, why=""))
    'above 1.00'
    """
    if band is None:
        return ""
    if math.isinf(band.high):
        return f"above {figure(band.low)}"
    if math.isinf(band.low):
        return f"below {figure(band.high)}"
    return f"{figure(band.low)} to {figure(band.high)}"


def verdict_text(finding: Finding) -> str:
    """Return the verdict in words, with what qualifies it."""
    if not finding.claim.counted:
        return "not counted"
    words = finding.verdict.replace("_", " ")
    return f"{words} after fit" if finding.claim.after_fit and finding.verdict == PASS else words


def tally(findings: Iterable[Finding]) -> str:
    """Return how many claims passed, failed and could not be judged."""
    found = list(findings)
    counted = [each for each in found if each.counted]
    passed = [each for each in counted if each.verdict == PASS]
    fitted = sum(each.claim.after_fit for each in passed)
    failed = len(counted) - len(passed)
    excused = sum(each.claim.counted and each.verdict == NOT_REPRODUCIBLE for each in found)
    ignored = len(found) - len(counted) - excused
    return (
        f"{len(passed)} of {len(counted)} claims hold ({fitted} after a fit), {failed} fail,"
        f" {excused} cannot be reproduced, {ignored} not counted"
    )


def as_data(finding: Finding) -> dict[str, Any]:
    """Return a finding for JSON; an open end of a band is null."""
    claim, band = finding.claim, finding.claim.band

    def number(value: float) -> float | None:
        return value if math.isfinite(value) else None

    return {
        "id": claim.id,
        "claim": claim.claim,
        "setting": claim.setting,
        "source": claim.source,
        "unit": claim.unit,
        "published": claim.published,
        "ours": None if finding.ours is None else number(finding.ours),
        "band": None if band is None else [number(band.low), number(band.high)],
        "band_reason": "" if band is None else band.why,
        "verdict": finding.verdict,
        "after_fit": claim.after_fit,
        "counted": finding.counted,
        "reason": finding.reason,
        "cause": claim.cause if finding.verdict == FAIL else "",
        "alternatives": [
            {"setting": each.setting, "ours": number(each.ours), "verdict": each.verdict}
            for each in finding.alternatives
        ],
    }


def text(findings: Sequence[Finding]) -> list[str]:
    """Return one line a claim for the terminal, reasons below those that need one."""
    lines = []
    for each in findings:
        claim = each.claim
        ours = "-" if each.ours is None else figure(each.ours)
        lines.append(
            f"{claim.id:<26} {figure(claim.published):>8} {ours:>8} {claim.unit:<9} "
            f"{band_text(claim.band):<18} {verdict_text(each)}"
        )
        lines.append(f"    {claim.claim}")
        if each.reason and (each.verdict in (FAIL, NOT_REPRODUCIBLE) or not claim.counted):
            lines.append(f"    {each.reason}")
        lines += [
            f"    {other.setting}: {figure(other.ours)} {claim.unit} ({other.verdict})"
            for other in each.alternatives
        ]
    return lines


def claim_rows(findings: Sequence[Finding]) -> list[str]:
    """Return a Markdown row for each finding."""
    return [
        f"| `{each.claim.id}` | {each.claim.claim} | {each.claim.setting}"
        f" | {figure(each.claim.published)} {each.claim.unit}"
        f" | {'' if each.ours is None else figure(each.ours)}"
        f" | {band_text(each.claim.band)} | {verdict_text(each)} |"
        for each in findings
    ]


def markdown(findings: Sequence[Finding]) -> list[str]:
    """Return a Markdown table of findings, then what there is to say about them."""
    lines = [
        "| claim | | setting | published | ours | band | verdict |",
        "| --- | --- | --- | ---: | ---: | --- | --- |",
        *claim_rows(findings),
    ]
    about: dict[str, list[str]] = {}
    for each in findings:
        if each.reason:
            about.setdefault(each.reason, []).append(f"`{each.claim.id}`")
    said = [f"- {', '.join(ids)}: {reason}." for reason, ids in about.items()]
    bands = sorted({each.claim.band.why for each in findings if each.claim.band is not None})
    sources = sorted({each.claim.source for each in findings})
    lines += ["", "Why the bands: " + "; ".join(bands) + ".", "", "Sources: " + "; ".join(sources)]
    lines[-1] += "."
    lines += ["", *said] if said else []
    return [*lines, *alternatives(findings)]


def alternatives(findings: Sequence[Finding]) -> list[str]:
    """Return a Markdown table of what other settings would give; empty without any."""
    rows = [
        f"| `{each.claim.id}` | {other.setting} | {figure(other.ours)} {each.claim.unit} |"
        f" {other.verdict} | {verdict_text(each)} |"
        for each in findings
        for other in each.alternatives
    ]
    if not rows:
        return []
    head = "| claim | with | ours | would | is |"
    return ["", "Other settings:", "", head, "| --- | --- | ---: | --- | --- |", *rows]


def decisive(findings: Iterable[Finding]) -> str:
    """Return how many of the other settings would change a verdict, and of which claims."""
    pairs = [
        (each.claim.id, each.verdict, other.verdict)
        for each in findings
        for other in each.alternatives
        if each.counted
    ]
    saved = {name for name, verdict, would in pairs if (verdict, would) == (FAIL, PASS)}
    lost = {name for name, verdict, would in pairs if (verdict, would) == (PASS, FAIL)}
    return (
        f"Of {len(pairs)} other settings, some would change a verdict: failing claims that would"
        f" pass: {len(saved)}; passing claims that would fail: {len(lost)}"
    )


def causes(findings: Iterable[Finding]) -> list[str]:
    """Return a Markdown table of the failures, grouped by cause.

    Raises
    ------
    ValueError
        A claim fails and does not say why.
    """
    failed = [each for each in findings if each.counted and each.verdict == FAIL]
    silent = [each.claim.id for each in failed if not (each.claim.cause and each.reason)]
    if silent:
        raise ValueError(f"no cause or reason is given for {', '.join(silent)}")
    rows = []
    for cause in CAUSES:
        names = [f"`{each.claim.id}`" for each in failed if each.claim.cause == cause]
        if names:
            rows.append(f"| {cause} | {len(names)} | {', '.join(names)} |")
    return ["| cause | claims | |", "| --- | ---: | --- |", *rows]
