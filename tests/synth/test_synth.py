"""Synthetic logs: reproducible, and with the structure that their recipe declares."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

from planner.cli.main import cli
from planner.errors import InputError
from planner.synth import arrivals, sessions
from planner.synth.generate import class_turns, expected_size, stream, synthesize
from planner.synth.load import load_recipe
from planner.synth.recipe import Arrivals, LogNormal, Recipe, Sessions
from planner.units import DAY_S, HOUR_S, WEEK_S

MINIMAL = """\
start: "2026-10-12T00:00:00Z"
duration_s: 86400
seed: 1
service: {ttft_s: 0.5, tpot_s: 0.02}
classes:
  chat:
    arrivals:
      requests_per_s: 1.0
      hour_of_day_weights: [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]
      day_of_week_weights: [1,1,1,1,1,1,1]
    sessions:
      {turns_mean: 4, turns_max: 50, think: {median_s: 10, sigma_log: 0.5}, carries_history: true}
    prompt:
      {fixed_tokens: 100, turn: {median_tokens: 50, sigma_log: 0.5}, context_max_tokens: 100000}
    output: {median_tokens: 80, sigma_log: 0.5, min_tokens: 1}
"""

INCIDENT = 'incidents: [{start: "2026-10-12T01:00:00Z", duration_s: 9, rate_factor: 2, '


@pytest.fixture(scope="module")
def week_recipe(root: Path) -> Recipe:
    return load_recipe(root / "traces" / "week42.yaml")


@pytest.fixture(scope="module")
def week(root: Path) -> pl.DataFrame:
    return pl.read_parquet(root / "traces" / "week42.parquet")


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    return load_recipe(written(tmp_path, MINIMAL))


def written(folder: Path, text: str) -> Path:
    path = folder / "recipe.yaml"
    path.write_text(text)
    return path


def test_week42_is_what_its_recipe_makes(root: Path, tmp_path: Path) -> None:
    """Byte for byte with the locked versions of NumPy and Polars; its bytes name the writer."""
    made = tmp_path / "week42.parquet"
    arguments = ["synth", str(root / "traces" / "week42.yaml"), "--output", str(made)]
    done = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert done.exit_code == 0
    committed = root / "traces" / "week42.parquet"
    assert pl.read_parquet(made).equals(pl.read_parquet(committed))
    assert made.read_bytes() == committed.read_bytes()
    assert committed.stat().st_size < 3_000_000
    assert [path.name for path in tmp_path.iterdir()] == ["week42.parquet"]


def test_week42_is_a_sorted_week_of_milliseconds(week: pl.DataFrame) -> None:
    time = week["timestamp"]
    assert time.dtype == pl.Datetime("ms", "UTC")
    assert time.is_sorted()
    first, last = time.dt.epoch("s")[0], time.dt.epoch("s")[-1]
    monday = 1_791_763_200  # 2026-10-12T00:00:00Z, the Monday of ISO week 42
    assert monday <= first < monday + 60
    assert monday + WEEK_S - 60 < last < monday + WEEK_S
    assert time.dt.week().unique().to_list() == [42]
    assert set(week["class"].unique()) == {"chat", "rag", "agent", "batch"}


def test_week42_faults_are_few_and_of_every_kind(week: pl.DataFrame) -> None:
    """Counts within four Poisson errors of share × rows."""
    for share, rows in (
        (0.0012, week.filter(pl.col("output_tokens").is_null() & (pl.col("status") == 503))),
        (0.0006, week.filter((pl.col("output_tokens") == 0) & (pl.col("status") == 499))),
        (0.0001, week.filter(pl.col("input_tokens") == 0)),
        (0.0003, week.filter(week.is_duplicated())),
    ):
        expected = share * week.height * (2 if share == 0.0003 else 1)  # both of a pair count
        assert abs(rows.height - expected) < 4 * math.sqrt(2 * expected), share
    fine = week.filter(pl.col("status") == 200)
    assert fine["output_tokens"].null_count() == 0
    assert fine["output_tokens"].min() >= 1


def test_week42_has_a_day_a_weekend_and_an_incident(week: pl.DataFrame) -> None:
    hours = (week["timestamp"].dt.epoch("s") - 1_791_763_200) // 3600
    for name, quiet, weekend in (("chat", 4, 0.62), ("rag", 3, 0.25), ("agent", 4, 0.75)):
        mine = hours.filter(week["class"] == name).to_numpy()
        counts = np.bincount(mine.astype(int), minlength=168).reshape(7, 24)
        assert counts[:5, quiet].mean() < 0.2 * counts[:5, 9:17].mean()
        assert counts[5:].sum(axis=1).mean() < weekend * counts[:5].sum(axis=1).mean()
    nightly = hours.filter(week["class"] == "batch").to_numpy() % 24
    assert np.mean((nightly < 6) | (nightly >= 21)) > 0.9
    # Wednesday 13:34 to 13:40 sign-in fails, then the rate is 1.7-fold for twenty minutes.
    first_turns = week.filter(pl.col("class") == "rag").unique("session_id", keep="first")
    minutes = (first_turns["timestamp"].dt.epoch("s") - 1_791_763_200) // 60
    at = 2 * 1440 + 13 * 60 + 34
    per_minute = np.bincount(minutes.to_numpy().astype(int), minlength=10_080)
    before, outage, after = per_minute[at - 60 : at], per_minute[at : at + 6], per_minute[at + 6 :]
    assert outage.mean() < 0.5 * before.mean()
    assert after[:20].mean() > 1.2 * before.mean()


def test_week42_prompts_grow_within_a_session(week: pl.DataFrame) -> None:
    for name, grows in (("chat", True), ("agent", True), ("rag", False)):
        fine = week.filter((pl.col("class") == name) & (pl.col("status") == 200))
        turns = fine.select(
            step=pl.col("input_tokens").diff().over("session_id"),
            gap_ms=pl.col("timestamp").diff().over("session_id").dt.total_milliseconds(),
        ).drop_nulls()
        larger = float((turns.filter(pl.col("gap_ms") > 0)["step"] > 0).mean())
        assert (larger > 0.9) if grows else (0.4 < larger < 0.6), name


@pytest.mark.parametrize(
    ("name", "inputs", "outputs"),
    [
        ("chat", (400, 1500), (150, 400)),
        ("rag", (2000, 6000), (100, 300)),
        ("agent", (4000, 16_000), (50, 500)),
        ("batch", (800, 4000), (400, 1500)),
    ],
)
def test_week42_medians_are_realistic(week: pl.DataFrame, name, inputs, outputs) -> None:
    mine = week.filter(pl.col("class") == name)
    assert inputs[0] < mine["input_tokens"].median() < inputs[1]
    assert outputs[0] < mine["output_tokens"].median() < outputs[1]


def test_another_seed_is_another_week_of_the_same_kind(week_recipe: Recipe) -> None:
    day = replace(week_recipe, duration_s=DAY_S, incidents=())
    one, two = synthesize(day), synthesize(replace(day, seed=43))
    assert not one.equals(two)
    assert two.height == pytest.approx(one.height, rel=0.1)
    assert synthesize(day).equals(one)


def test_classes_do_not_disturb_each_other(week_recipe: Recipe) -> None:
    day = replace(week_recipe, duration_s=DAY_S)
    alone = replace(day, classes=tuple(c for c in day.classes if c.name == "rag"))
    together = {item.name: class_turns(day, item) for item in day.classes}["rag"]
    single = class_turns(alone, alone.classes[0])
    assert np.array_equal(together.arrival_s, single.arrival_s)
    assert np.array_equal(together.output_tokens, single.output_tokens)


def test_the_mean_rate_is_the_declared_one(recipe: Recipe) -> None:
    """A day of Poisson sessions with 4 turns: the standard error of the count is about 0.9 %."""
    assert synthesize(recipe).height == pytest.approx(DAY_S * 1.0, rel=0.03)


def test_thinning_keeps_whole_sessions(recipe: Recipe) -> None:
    full = class_turns(recipe, recipe.classes[0])
    thin = class_turns(replace(recipe, sample_rate=0.2), recipe.classes[0])
    assert len(thin.arrival_s) == pytest.approx(0.2 * len(full.arrival_s), rel=0.1)
    per_session = [np.unique(turns.session, return_counts=True)[1] for turns in (full, thin)]
    assert per_session[1].mean() == pytest.approx(per_session[0].mean(), rel=0.05)


def test_turns_wait_for_the_answer_and_carry_the_history(recipe: Recipe) -> None:
    item = recipe.classes[0]
    turns = sessions.play(item, recipe.service, np.zeros(500), stream(1, "test"))
    for session in range(500):
        mine = np.flatnonzero(turns.session == session)
        for earlier, later in pairwise(mine):
            busy_s = 0.5 + 0.02 * turns.output_tokens[earlier]
            assert turns.arrival_s[later] > turns.arrival_s[earlier] + busy_s
            held = turns.input_tokens[earlier] + turns.output_tokens[earlier]
            assert turns.input_tokens[later] >= held


def test_prompts_stop_at_the_context_limit(recipe: Recipe) -> None:
    short = replace(recipe.classes[0], context_max_tokens=300)
    turns = sessions.play(short, recipe.service, np.zeros(2000), stream(2, "test"))
    assert turns.input_tokens.max() == 300


def test_mean_of_cut_geometric_turns() -> None:
    """2,000,000 draws: standard error 0.001."""
    think = LogNormal(median=1, sigma=0, minimum=0, maximum=1)
    law = Sessions(turns_mean=3.6, turns_max=5, think_s=think, carries_history=True, logged=True)
    draws = np.minimum(np.random.default_rng(1).geometric(1 / 3.6, 2_000_000), 5)
    assert sessions.mean_turns(law) == pytest.approx(draws.mean(), abs=0.005)


def test_lengths_correlate_as_declared() -> None:
    """200,000 pairs: standard error of r below 0.0023."""
    one, two = sessions.correlated_scores(0.6, 200_000, np.random.default_rng(3))
    assert np.corrcoef(one, two)[0, 1] == pytest.approx(0.6, abs=0.008)
    assert two.std() == pytest.approx(1.0, abs=0.008)


@pytest.mark.parametrize("family", ["gamma", "weibull"])
@pytest.mark.parametrize("cv", [0.5, 1.0, 2.0])
def test_gaps_have_the_declared_mean_and_spread(family: str, cv: float) -> None:
    """1,000,000 draws: the error of a CV of 2 is about 0.6 %."""
    gaps = arrivals.unit_gaps(family, cv, 1_000_000, np.random.default_rng(4))
    assert gaps.mean() == pytest.approx(1.0, abs=0.01)
    assert gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.03)


def test_rate_noise_has_the_declared_spread_and_memory() -> None:
    """200,000 steps with a memory of 10: about 20,000 independent values, so 3 %."""
    path = arrivals.log_normal_noise(0.3, 600.0, 60.0, 200_000, np.random.default_rng(5))
    assert path.mean() == pytest.approx(1.0, abs=0.02)
    assert path.std() == pytest.approx(0.3, abs=0.02)
    logs = np.log(path) - np.log(path).mean()
    lagged = float(logs[10:] @ logs[:-10]) / float(logs @ logs)
    assert lagged == pytest.approx(math.exp(-1.0), abs=0.05)


def test_starts_follow_the_rate() -> None:
    """Three of four sessions start in the second half of each day; 20,000 starts, error 0.3 %."""
    law = Arrivals(
        requests_per_s=1.0,
        hour_of_day=(1.0,) * 12 + (3.0,) * 12,
        day_of_week=(1.0,) * 7,
        gap_family="gamma",
        gap_cv=1.0,
        rate_cv=0.0,
        rate_correlation_s=900.0,
    )
    span = (0.0, 2 * DAY_S)
    starts = arrivals.session_starts(law, 0.12, (), 0.0, span, np.random.default_rng(6))
    afternoon = np.mean(starts % DAY_S >= 12 * HOUR_S)
    assert afternoon == pytest.approx(0.75, abs=0.015)
    assert np.all(np.diff(starts) > 0)


@pytest.mark.parametrize(
    ("find", "replacement", "message"),
    [
        ("seed: 1", "seed: -1", "seed: must be at least 0"),
        ("seed: 1", "sead: 1", "did you mean seed"),
        ("[1,1,1,1,1,1,1]", "[1,1,1]", "day_of_week_weights: needs at least 7"),
        ("[1,1,1,1,1,1,1]", "[0,0,0,0,0,0,0]", "every weight is zero"),
        ("2026-10-12", "2026-02-30", "no such date"),
        ("2026-10-12", "1815-06-18", "outside the years 2000 to 2098"),
        ("turns_max: 50", "turns_max: 3", "4 on average is more than the longest session, 3"),
        ("median_tokens: 80", "median_tokens: 1.0e+12", "must be at most 10000000"),
        ("[1,1,1,1,1,1,1]", "[1,1,1,1,1,1,1.0e+308]", "must be at most 1000000"),
        ("min_tokens: 1}", "min_tokens: 9, max_tokens: 2}", "2 is below min_tokens, 9"),
        ("context_max_tokens: 100000", "context_max_tokens: 90", "leaves no room beside"),
        ("requests_per_s: 1.0", "requests_per_s: .nan", "not a finite number"),
        ("duration_s: 86400", "duration_s: 1 day", "duration_s"),
        (
            "service:",
            'incidents: [{start: "2026-10-14T00:00:00Z", duration_s: 9, rate_factor: 2}]\nservice:',
            "incidents[0].start: lies outside the log",
        ),
        (
            "service:",
            INCIDENT + "classes: [x]}]\nservice:",
            "no class 'x'",
        ),
    ],
)
def test_a_wrong_recipe_says_what_and_where(tmp_path: Path, find, replacement, message) -> None:
    assert find in MINIMAL
    path = written(tmp_path, MINIMAL.replace(find, replacement))
    with pytest.raises(InputError) as caught:
        load_recipe(path)
    assert message in str(caught.value)
    assert f"{path}:" in str(caught.value)


def test_a_recipe_beyond_memory_is_refused(tmp_path: Path) -> None:
    text = MINIMAL.replace("requests_per_s: 1.0", "requests_per_s: 9999")
    text = text.replace("duration_s: 86400", "duration_s: 31536000")
    with pytest.raises(InputError, match="raise sample_rate"):
        load_recipe(written(tmp_path, text))


@pytest.mark.parametrize(
    ("find", "replacement", "what"),
    [
        ("turns_mean: 4, turns_max: 50", "turns_mean: 1000, turns_max: 1000", "rows"),
        ("service:", INCIDENT.replace("factor: 2, ", "factor: 1000}]") + "\nservice:", "sessions"),
    ],
)
def test_sizes_count_long_sessions_and_incidents(
    tmp_path: Path, find: str, replacement: str, what: str
) -> None:
    """The mean rate alone would pass: 60 requests/s over 10 days are 52 million requests."""
    text = MINIMAL.replace("requests_per_s: 1.0", "requests_per_s: 60")
    text = text.replace("duration_s: 86400", "duration_s: 864000").replace(find, replacement)
    text = text.replace("duration_s: 9", "duration_s: 864000").replace(
        "seed:", "sample_rate: 0.9\nseed:"
    )
    with pytest.raises(InputError, match=rf"asks for .* {what}"):
        load_recipe(written(tmp_path, text))


def test_the_expected_size_is_what_is_drawn(recipe: Recipe) -> None:
    """One class, 86,400 requests in 25,000 sessions: standard errors 0.7 % and 1 %.

    Sessions also start in the lead-in of two hours, whose requests are mostly outside the log.
    """
    sessions_drawn, rows = expected_size(recipe)
    lead_in = 1.0 + 7200.0 / 86400.0
    assert sessions_drawn == pytest.approx(
        86_400 * lead_in / sessions.mean_turns(recipe.classes[0].sessions), rel=1e-3
    )
    assert synthesize(recipe).height == pytest.approx(rows / lead_in, rel=0.03)


def test_a_recipe_without_requests_writes_nothing(tmp_path: Path) -> None:
    path = written(tmp_path, MINIMAL.replace("requests_per_s: 1.0", "requests_per_s: 1.0e-9"))
    done = CliRunner().invoke(cli, ["synth", str(path)])
    assert "no request" in str(done.exception)
    assert [item.name for item in tmp_path.iterdir()] == [path.name]


def test_the_recipe_is_not_overwritten(tmp_path: Path) -> None:
    path = written(tmp_path, MINIMAL)
    done = CliRunner().invoke(cli, ["synth", str(path), "-o", str(path)])
    assert "would be overwritten" in str(done.exception)
    assert path.read_text() == MINIMAL


def test_command_reports_what_it_wrote(tmp_path: Path) -> None:
    path = written(tmp_path, MINIMAL)
    done = CliRunner().invoke(cli, ["synth", str(path), "--seed", "9", "--json"])
    assert done.exit_code == 0
    frame = pl.read_parquet(tmp_path / "recipe.parquet")
    assert f'"rows": {frame.height}' in done.output
    assert frame["session_id"].max() == frame["session_id"].n_unique()


def test_command_leaves_nothing_behind_when_it_cannot_write(tmp_path: Path) -> None:
    path = written(tmp_path, MINIMAL)
    (tmp_path / "taken").mkdir()
    done = CliRunner().invoke(cli, ["synth", str(path), "-o", str(tmp_path / "taken")])
    assert isinstance(done.exception, InputError)
    assert "cannot be written" in str(done.exception)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["recipe.yaml", "taken"]
