"""What a synthetic trace declares: `traces/*.yaml` after validation (`schemas/synth.schema.json`).

A recipe describes the whole service; `sample_rate` says which share of its sessions the log keeps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from planner.ingest.reasons import MAX_TOKENS


@dataclass(frozen=True, slots=True, kw_only=True)
class LogNormal:
    """A log-normal amount, rounded and clipped to [minimum, maximum]."""

    median: float
    sigma: float  # standard deviation of the logarithm
    minimum: float
    maximum: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals:
    """How sessions of one class start.

    `requests_per_s` is the mean over a whole week, before incidents. `gap_cv` is the burstiness
    left when the rate is constant (1 is Poisson), `rate_cv` how far the rate wanders around its
    daily shape and `rate_correlation_s` for how long it stays there.
    """

    requests_per_s: float
    hour_of_day: tuple[float, ...]  # 24 weights from 00:00 UTC
    day_of_week: tuple[float, ...]  # 7 weights from Monday
    gap_family: str  # "gamma" or "weibull"
    gap_cv: float
    rate_cv: float
    rate_correlation_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Sessions:
    """How many requests a session makes and how its prompts grow.

    Turns are geometric with mean 1/p, cut at `turns_max`. The next turn starts when the previous
    answer is complete and the user (or tool) has thought for `think_s`.
    """

    turns_mean: float
    turns_max: int
    think_s: LogNormal
    carries_history: bool  # each prompt holds the earlier prompts and answers
    logged: bool  # the log names the session


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassRecipe:
    """One workload class of the service."""

    name: str
    arrivals: Arrivals
    sessions: Sessions
    fixed_tokens: int  # system prompt and tool descriptions, part of every prompt
    turn_tokens: LogNormal  # what one turn adds to the prompt
    output_tokens: LogNormal
    length_correlation: float  # of the logarithms of turn_tokens and output_tokens
    context_max_tokens: int  # prompts are cut to this, oldest history first


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """A stretch of time in which sessions start at `rate_factor` times their usual rate."""

    start_s: float
    duration_s: float
    rate_factor: float
    classes: tuple[str, ...]  # empty: every class


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """How fast the service answered when the log was written; spaces the turns of a session."""

    ttft_s: float
    tpot_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """Shares of rows that the log got wrong, each independent of the others."""

    failed_share: float  # the server failed: no output count, an error status
    cancelled_share: float  # the client left before the first token: output 0
    unknown_input_share: float  # the gateway's placeholder 0 was never corrected
    duplicate_share: float  # the row was written twice


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A whole synthetic trace."""

    start: datetime  # with its zone
    duration_s: float
    seed: int
    sample_rate: float
    service: Service
    classes: tuple[ClassRecipe, ...]
    incidents: tuple[Incident, ...]
    faults: Faults


def recipe_from_dict(data: Mapping[str, Any]) -> Recipe:
    """Build a Recipe from a document that `schemas/synth.schema.json` accepts.

    Examples
    --------
    >>> _lognormal({"median_s": 20, "sigma_log": 1}, "s")
    LogNormal(median=20.0, sigma=1.0, minimum=0.0, maximum=inf)
    """
    start = datetime.fromisoformat(str(data["start"]))
    faults = data.get("faults", {})
    names = ("failed_share", "cancelled_share", "unknown_input_share", "duplicate_share")
    return Recipe(
        start=start,
        duration_s=float(data["duration_s"]),
        seed=int(data["seed"]),
        sample_rate=float(data.get("sample_rate", 1.0)),
        service=Service(
            ttft_s=float(data["service"]["ttft_s"]), tpot_s=float(data["service"]["tpot_s"])
        ),
        classes=tuple(_class_recipe(name, data["classes"][name]) for name in data["classes"]),
        incidents=tuple(_incident(item, start) for item in data.get("incidents", ())),
        faults=Faults(**{name: float(faults.get(name, 0.0)) for name in names}),
    )


def _class_recipe(name: str, data: Mapping[str, Any]) -> ClassRecipe:
    sessions = data["sessions"]
    prompt = data["prompt"]
    return ClassRecipe(
        name=name,
        arrivals=_arrivals(data["arrivals"]),
        sessions=Sessions(
            turns_mean=float(sessions["turns_mean"]),
            turns_max=int(sessions["turns_max"]),
            think_s=_lognormal(sessions["think"], "s"),
            carries_history=bool(sessions["carries_history"]),
            logged=bool(sessions.get("logged", True)),
        ),
        fixed_tokens=int(prompt["fixed_tokens"]),
        turn_tokens=_lognormal(prompt["turn"], "tokens"),
        output_tokens=_lognormal(data["output"], "tokens"),
        length_correlation=float(data.get("length_correlation", 0.0)),
        context_max_tokens=int(prompt["context_max_tokens"]),
    )


def _arrivals(data: Mapping[str, Any]) -> Arrivals:
    return Arrivals(
        requests_per_s=float(data["requests_per_s"]),
        hour_of_day=tuple(float(weight) for weight in data["hour_of_day_weights"]),
        day_of_week=tuple(float(weight) for weight in data["day_of_week_weights"]),
        gap_family=str(data.get("gap_family", "gamma")),
        gap_cv=float(data.get("gap_cv", 1.0)),
        rate_cv=float(data.get("rate_cv", 0.0)),
        rate_correlation_s=float(data.get("rate_correlation_s", 900.0)),
    )


def _lognormal(data: Mapping[str, Any], unit: str) -> LogNormal:
    return LogNormal(
        median=float(data[f"median_{unit}"]),
        sigma=float(data["sigma_log"]),
        minimum=float(data.get(f"min_{unit}", 0.0)),
        maximum=float(data.get(f"max_{unit}", MAX_TOKENS if unit == "tokens" else "inf")),
    )


def _incident(data: Mapping[str, Any], start: datetime) -> Incident:
    begins = datetime.fromisoformat(str(data["start"]))
    return Incident(
        start_s=(begins - start).total_seconds(),
        duration_s=float(data["duration_s"]),
        rate_factor=float(data["rate_factor"]),
        classes=tuple(str(name) for name in data.get("classes", ())),
    )
