"""What a benchmark's repeated prompts leave in the prefix cache, and what that saves."""

from dataclasses import replace

import pytest

from planner.calibrate.points import point, read_points
from planner.calibrate.reuse import cached_tokens
from planner.perf.calibrations import calibration
from planner.perf.closed_loop import Load, closed_loop
from planner.perf.compile import compile_step_cost
from planner.perf.step_cost import mixed_step_s
from planner.spec import catalog


def row(clients: int, requests: int, prompt: float, output: float, **changes: str):
    return {
        "source_id": "sglang_cookbook",
        "prefix_caching": "on (radix default)",
        "concurrency": str(clients),
        "n_requests": str(requests),
        "input_tokens": str(prompt),
        "output_tokens": str(output),
        **changes,
    }


DENSE = catalog.model("meta-llama/Llama-3.1-70B-Instruct")


@pytest.mark.parametrize(
    ("clients", "requests", "prompt", "output", "mean", "opening"),
    [
        (1, 10, 4000, 500, 0.0, 0.0),  # the first run
        (16, 80, 4000, 500, 500.0, 2500.0),  # 10 of 80; 10 of the first 16
        (64, 320, 4000, 500, 1000.0, 4000.0),  # 80 of 320; all of the first 64
        (100, 500, 500, 500, 80.0, 400.0),
        (16, 80, 500, 4000, 500.0, 500.0),  # sent before with short answers
    ],
)
def test_requests_of_earlier_runs_are_cached(clients, requests, prompt, output, mean, opening):
    found = cached_tokens(row(clients, requests, prompt, output), DENSE)
    assert found == pytest.approx((mean, opening))


@pytest.mark.parametrize(
    "changes",
    [{"source_id": "another"}, {"prefix_caching": "off"}, {"n_requests": "1000"}],
)
def test_other_runs_repeat_nothing_that_is_known(changes):
    assert cached_tokens(row(64, 320, 4000, 500, **changes), DENSE) == (0.0, 0.0)


def test_constant_state_layers_reuse_nothing():
    hybrid = catalog.model("Qwen/Qwen3-Next-80B-A3B-Instruct")
    assert cached_tokens(row(64, 320, 4000, 500), hybrid) == (0.0, 0.0)


def a100_cost():
    rows = {
        **row(64, 320, 3980.9, 531.2),
        "engine": "sglang",
        "model": "Meta-Llama/Llama-3.1-70B",
        "gpu": "A100-SXM-80GB",
        "tp": "8",
    }
    item = point(rows)
    fit = calibration(item.gpu)
    return compile_step_cost(item.model, item.gpu, item.engine, fit, item.deployment), item.load


def test_a_cached_prefix_is_read_back_but_not_computed():
    """One client: TTFT shrinks by what the step of a whole prompt exceeds that of its rest."""
    cost, _ = a100_cost()
    bare = replace(cost, frontend_s=0.0, frontend_client_s=0.0, frontend_token_s=0.0)
    whole = Load(prompt_tokens=4000, output_tokens=1e6, concurrency=1)
    half = replace(whole, cached_tokens=3000.0)
    long, short = (closed_loop(bare, load, 1e9, mixes=False).ttft_s for load in (whole, half))
    steps = [
        float(mixed_step_s(bare, decode_seqs=0, context_tokens=0.0, finishing=1, **sizes))
        for sizes in ({"chunk_tokens": 4000}, {"chunk_tokens": 1000, "past_tokens": 3000.0})
    ]
    assert long - short == pytest.approx(steps[0] - steps[1], rel=1e-3)


def test_the_opening_burst_of_the_shown_run_was_cached(shared):
    """64 prompts of 4 k take longer at the datasheet's FLOPs than the P99 TTFT that was measured.

    The mean TTFT follows once the burst is cached; computed, it would be fourfold and more.
    """
    rows = read_points(shared / "groundtruth" / "e2e_points.csv")
    shown = next(r for r in rows if r["point_id"] == "P06976")
    item = point(shown)
    flops = 64 * item.load.prompt_tokens * 2 * 70e9
    peak = item.deployment.gpus * item.gpu.peak_flops_per_s["bf16"]
    assert flops / peak > 5 * float(shown["ttft_p99_ms"]) / 1e3
    cost, load = a100_cost()
    measured_s = float(shown["ttft_mean_ms"]) / 1e3
    computed = replace(load, cached_tokens=0.0, burst_cached_tokens=0.0)
    assert closed_loop(cost, load, 1e9, mixes=False).ttft_s == pytest.approx(measured_s, rel=0.4)
    assert closed_loop(cost, computed, 1e9, mixes=False).ttft_s > 4 * measured_s
