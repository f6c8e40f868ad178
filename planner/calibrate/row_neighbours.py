"""Checks of a measured row against the rows beside it: repeats, versions, clients, prompts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from planner.calibrate.measured import Row, number, text
from planner.calibrate.names import family
from planner.calibrate.row_checks import deployed, first_ms
from planner.calibrate.row_miss import Compared
from planner.calibrate.scoring import MEASURED

DEPLOYED = ("engine", "gpu", "tp", "pp", "ep", "dp", "weight_dtype", "kv_dtype")
LENGTHS = ("input_tokens", "output_tokens")
VERSION = ("engine_version", "source_id")
PROMPT_RATIO = 4.0  # prompts that differ by this much …
ALIKE = 0.6  # … take a TTFT at least in this proportion where it is no prefill
SLOWER = 1.3  # than another engine


class Neighbours:
    """Rows of one metric, found by the columns they share.

    Models of one shape under two names (DeepSeek R1 and V3) are one.
    """

    def __init__(self, cases: Iterable[Compared]) -> None:
        self._by: dict[tuple[str, ...], list[Compared]] = {}
        for case in cases:
            self._by.setdefault(_deployment(case.row), []).append(case)

    def of(self, case: Compared, same: Callable[[Row], tuple[object, ...]]) -> list[Compared]:
        """Return other rows of the same deployment that agree in what `same` returns."""
        wanted = same(case.row)
        return [
            other
            for other in self._by.get(_deployment(case.row), [])
            if other.row is not case.row and same(other.row) == wanted
        ]


def _deployment(row: Row) -> tuple[str, ...]:
    model = family(text(row, "model")).replace("DeepSeek-R1", "DeepSeek-V3")
    return (model, *(text(row, name) for name in DEPLOYED))


def _lengths(row: Row) -> tuple[object, ...]:
    """Lengths to half an octave: random draws of one nominal length agree."""
    return tuple(round(math.log2(number(row, n) or 1.0)) for n in LENGTHS)


def repeats(case: Compared, others: Neighbours) -> str:
    """Find a run with the same columns, version and clients that the prediction does meet."""
    return _twin(case, others.of(case, lambda r: (*_lengths(r), _clients(r), *_version(r))), "")


def versions(case: Compared, others: Neighbours) -> str:
    """Find a run of another version, otherwise the same, that the prediction does meet."""
    found = others.of(case, lambda r: (*_lengths(r), _clients(r)))
    return _twin(case, [o for o in found if _version(o.row) != _version(case.row)], "version")


def _twin(case: Compared, found: Sequence[Compared], kind: str) -> str:
    met = [o for o in found if case.agrees(o.measured) and o.measured != case.measured]
    if not met:
        return ""
    other = min(met, key=lambda o: (abs(o.measured - case.predicted), text(o.row, "point_id")))
    release = text(other.row, "engine_version") or "unstated"
    what = f"version {release}, otherwise the same" if kind else "the same columns"
    return f"{text(other.row, 'point_id')}, {what}, has {other.measured:.4g}"


def off_series(case: Compared, others: Neighbours) -> str:
    """Find a row that is off its own series: latency and throughput rise with the clients.

    Beyond repeat noise, a run of fewer clients has more than this one that the model finds low, or
    a run of more clients has less than this one that the model finds high.
    """
    clients, below = _clients(case.row), case.error > 0.0  # … the prediction, and a neighbour
    widest, found = 1.0 + case.target.noise, ""
    for other in others.of(case, lambda r: (*_lengths(r), *_version(r))):
        fewer = _clients(other.row) < clients
        if _clients(other.row) == clients or fewer != below:
            continue
        ratio = other.measured / case.measured if below else case.measured / other.measured
        if ratio > widest:
            widest = ratio
            found = (
                f"{text(other.row, 'point_id')}, {_clients(other.row):.0f} clients instead of "
                f"{clients:.0f}, has {other.measured:.4g}"
            )
    return found


def prompt_alike(case: Compared, others: Neighbours) -> str:
    """Find a TTFT that hardly depends on the prompt: no prefill, a stall."""
    prompt = number(case.row, "input_tokens")
    if case.target.metric != "TTFT" or case.error > 0.0 or not prompt:
        return ""
    for other in others.of(case, lambda r: (_clients(r), *_version(r))):
        theirs = number(other.row, "input_tokens") or 0.0
        short, long = (case, other) if theirs > prompt else (other, case)
        apart = max(theirs, prompt) >= PROMPT_RATIO * max(1.0, min(theirs, prompt))
        if apart and short.measured >= ALIKE * long.measured:
            return (
                f"{text(other.row, 'point_id')}, prompts of {theirs:.0f} instead of {prompt:.0f} "
                f"tokens, has {other.measured:.0f}: the prompt does not decide it"
            )
    return ""


def other_engine(case: Compared, everything: Sequence[Compared]) -> str:
    """Find another engine that runs the same weights on the same GPUs in much less time.

    With contexts no shorter, and its time taken as proportional to clients where it had fewer: no
    step time grows faster, so neither weights nor KV cache can be what takes the time.
    """
    metric = "ttft" if case.target.metric == "TTFT" else "tpot"
    slower = (case.error > 0.0) == (case.target.metric == MEASURED)
    own = first_ms(case.row, metric)
    if not slower or not own:
        return ""
    best, found = own / SLOWER, ""
    for other in everything:
        theirs = first_ms(other.row, metric)
        if not theirs or not _comparable(case.row, other.row):
            continue
        scaled = theirs * max(1.0, _clients(case.row) / _clients(other.row))
        if scaled < best:
            best = scaled
            found = (
                f"{text(other.row, 'engine')} with the same weights on the same GPUs has "
                f"{metric.upper()} {theirs:.4g} ms at {_clients(other.row):.0f} clients "
                f"({text(other.row, 'point_id')}), this row {own:.4g} at {_clients(case.row):.0f}"
            )
    return found


def _comparable(row: Row, other: Row) -> bool:
    return (
        text(other, "engine") != text(row, "engine")
        and text(other, "gpu") == text(row, "gpu")
        and min(_clients(other), _clients(row)) > 0
        and _context(other) >= _context(row)
        and (number(other, "input_tokens") or 0.0) >= (number(row, "input_tokens") or 0.0)
        and _hardware(other) == _hardware(row)
    )


def _hardware(row: Row) -> tuple[object, ...]:
    item = deployed(row)
    model, moe = item.model, item.model.moe
    shape = (model.num_layers, model.hidden_size, moe.num_experts if moe else 0)
    return (*shape, item.deployment.weight_dtype, item.gpu.id, item.deployment.gpus)


def _context(row: Row) -> float:
    return (number(row, "input_tokens") or 0.0) + (number(row, "output_tokens") or 0.0) / 2.0


def _clients(row: Row) -> float:
    return number(row, "concurrency") or 0.0


def _version(row: Row) -> tuple[str, ...]:
    return tuple(text(row, name) for name in VERSION)
