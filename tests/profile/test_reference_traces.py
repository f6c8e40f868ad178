"""The profile of each public trace against figures that were computed independently of this code.

Tolerances: the reference prints two or three digits (0.006, or half a unit of a last digit); its
percentiles interpolate where ours are observed values (a neighbouring value: 0.2 %, or 1 token);
its fits take another subset of at most 60,000 gaps (sampling error of a shape 0.5 %, so 1.5 %;
of a Kolmogorov distance 0.004).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from planner.profile.profile import profile_requests
from planner.profile.types import TraceProfile

SOURCES = {
    "azure conv": ("azure", "conv"),
    "azure code": ("azure", "code"),
    "mooncake conversation": ("mooncake", "conversation"),
    "mooncake synthetic": ("mooncake", "synthetic"),
    "m-large": ("servegen", "m-large_7day_100k"),
    "deepseek": ("servegen", "deepseek-r1_1day_full"),
    "m-mid": ("servegen", "m-mid_14day_1M"),
}


@pytest.fixture(scope="module")
def profiled(shared, samples) -> Callable[[str], TraceProfile]:
    known: dict[str, TraceProfile] = {}

    def get(name: str) -> TraceProfile:
        if name not in known:
            loader, file = SOURCES[name]
            requests = getattr(samples, loader)(shared / "traces", file)
            known[name] = profile_requests(requests)
        return known[name]

    return get


# requests, req/s, busiest minute, busiest hour, zero gaps %
COUNTS = {
    "azure conv": (19_366, 5.5304, 507, None, 0),
    "azure code": (8_819, 2.5667, 632, None, 0),
    "mooncake conversation": (12_031, 3.4015, 247, None, 90.2),
    "mooncake synthetic": (3_993, 3.9069, 273, None, 0.28),
    "m-large": (101_088, 0.1671, 99, 1099, 0.49),
    "deepseek": (1_382_674, 16.0032, 2639, 125_613, 0.34),
    "m-mid": (997_437, 0.8246, 515, 6489, 3.02),
}


@pytest.mark.parametrize("name", COUNTS)
def test_counts_and_rates(profiled, name: str) -> None:
    requests, rate, minute, hour, zero = COUNTS[name]
    profile = profiled(name)
    arrivals = profile.total.arrivals
    assert profile.requests == requests
    assert arrivals.mean_per_s == pytest.approx(rate, abs=6e-5)
    assert arrivals.peak_per_minute == minute
    if hour is not None:
        assert arrivals.peak_per_hour == hour
    assert 100 * arrivals.zero_gap_share == pytest.approx(zero, abs=0.006)


# peak/mean of 1 s, 1 min, 1 h; Fano of 1 s, 1 min; gap CV
PEAKS = {
    "azure conv": (2.89, 1.52, None, 1.39, 16.13, 1.09),
    "azure code": (26.11, 4.18, None, 13.19, 163.96, 13.15),
    "mooncake synthetic": (3.33, 1.17, None, 1.09, 1.19, 1.01),
    "m-large": (155.55, 9.87, 1.83, 1.55, 3.86, 1.33),
    "deepseek": (5.87, 2.75, 2.2, 6.93, 258.46, 1.56),
    "m-mid": (110.36, 10.41, 2.18, 6.03, 32.76, 18.01),
}


@pytest.mark.parametrize("name", PEAKS)
def test_peaks_and_burstiness(profiled, name: str) -> None:
    second, minute, hour, fano_second, fano_minute, cv = PEAKS[name]
    arrivals = profiled(name).total.arrivals
    assert arrivals.peak_to_mean_1s == pytest.approx(second, rel=1e-3, abs=0.006)
    assert arrivals.peak_to_mean_60s == pytest.approx(minute, rel=1e-3, abs=0.006)
    if hour is None:
        assert math.isnan(arrivals.peak_to_mean_3600s)  # the trace is shorter than an hour
    else:
        assert arrivals.peak_to_mean_3600s == pytest.approx(hour, abs=0.006)
    assert arrivals.fano_1s == pytest.approx(fano_second, rel=1e-3, abs=0.006)
    assert arrivals.fano_60s == pytest.approx(fano_minute, rel=1e-3, abs=0.006)
    assert arrivals.gap_cv == pytest.approx(cv, abs=0.006)


# Gamma k, Weibull k, KS of exponential, Gamma, Weibull
FITS = {
    "azure conv": (0.871, 0.922, 0.022, 0.017, 0.017),
    "azure code": (0.231, 0.419, 0.52, 0.218, 0.14),
    "mooncake synthetic": (1.018, 1.005, 0.011, 0.012, 0.011),
    "m-large": (0.441, 0.586, 0.123, 0.076, 0.078),
    "deepseek": (0.504, 0.644, 0.113, 0.052, 0.056),
    "m-mid": (0.209, 0.302, 0.309, 0.089, 0.124),
}


@pytest.mark.parametrize("name", FITS)
def test_fits(profiled, name: str) -> None:
    gamma, weibull, *distances = FITS[name]
    arrivals = profiled(name).total.arrivals
    assert arrivals.gamma_shape == pytest.approx(gamma, rel=0.015)
    assert arrivals.weibull_shape == pytest.approx(weibull, rel=0.015)
    assert arrivals.ks_exponential == pytest.approx(distances[0], abs=0.004)
    assert arrivals.ks_gamma == pytest.approx(distances[1], abs=0.004)
    assert arrivals.ks_weibull == pytest.approx(distances[2], abs=0.004)


# mean, p50, p90, p95, p99, max of input; the same of output; Pearson, Spearman
LENGTHS = {
    "azure conv": (
        (1155, 1020, 2734, 4083, 4142, 14_050),
        (211, 129, 424, 451, 601, 1000),
        (-0.11, 0.07),
    ),
    "azure code": (
        (2048, 1469, 5188, 7303, 7436, 7437),
        (28, 13, 55, 90, 251, 1899),
        (0, -0.02),
    ),
    "mooncake conversation": (
        (12_035, 6909, 27_367, 39_550, 85_400, 126_195),
        (343, 350, 597, 698, 1119, 2000),
        (0.07, 0.07),
    ),
    "mooncake synthetic": (
        (15_325, 11_587, 38_611, 48_905, 66_456, 191_378),
        (149, 69, 389, 519, 768, 893),
        (-0.37, -0.52),
    ),
    "m-large": (
        (783, 598, 2334, 2394, 3270, 24_164),
        (118, 20, 447, 483, 660, 8192),
        (0.24, 0.13),
    ),
    "deepseek": (
        (1274, 208, 2114, 6763, 23_543, 56_957),
        (1529, 791, 3424, 5695, 12_720, 32_768),
        (-0.06, -0.38),
    ),
    "m-mid": (
        (434, 203, 809, 1318, 4600, 75_096),
        (53, 29, 103, 160, 462, 8192),
        (0.35, 0.05),
    ),
}


@pytest.mark.parametrize("name", LENGTHS)
def test_lengths(profiled, name: str) -> None:
    total = profiled(name).total
    inputs, outputs, (pearson, spearman) = LENGTHS[name]
    for found, wanted in ((total.input_tokens, inputs), (total.output_tokens, outputs)):
        assert found.mean == pytest.approx(wanted[0], abs=0.51)
        for field, value in zip(("p50", "p90", "p95", "p99", "max"), wanted[1:], strict=True):
            assert getattr(found, field) == pytest.approx(value, rel=0.0025, abs=1.0), field
    assert total.pearson == pytest.approx(pearson, abs=0.006)
    assert total.spearman == pytest.approx(spearman, abs=0.006)


# blocks, unique, % of requests with a hit, % of input tokens by cache size
REUSE: dict[str, tuple[Any, ...]] = {
    "mooncake conversation": (
        288_500,
        182_790,
        99.99,
        {"1000": 4.54, "5000": 11.4, "10000": 21.57, "30000": 33.22, "50000": 36.15, "inf": 37.36},
    ),
    "mooncake synthetic": (
        121_877,
        43_924,
        44.63,
        {"1000": 8.57, "5000": 28.45, "10000": 43.18, "30000": 63.56, "50000": 65.12, "inf": 65.12},
    ),
}


@pytest.mark.parametrize("name", REUSE)
def test_prefix_reuse(profiled, name: str) -> None:
    blocks, unique, hits, shares = REUSE[name]
    reuse = profiled(name).total.reuse
    assert (reuse.block_tokens, reuse.blocks, reuse.unique_blocks) == (512, blocks, unique)
    assert 100 * reuse.requests_with_hit_share == pytest.approx(hits, abs=0.006)
    found = {size: 100 * share for size, share in reuse.hit_share_by_cache_blocks.items()}
    assert found == pytest.approx(shares, abs=0.006)


def test_batched_timestamps_are_recognised_and_not_fitted(profiled) -> None:
    arrivals = profiled("mooncake conversation").total.arrivals
    assert arrivals.time_quantum_s == 3.0
    assert arrivals.gap_cv == pytest.approx(3.03, abs=0.006)  # an artefact of the batches
    assert math.isnan(arrivals.gamma_shape)
    assert math.isnan(arrivals.ks_weibull)


def test_azure_conversation_surge(profiled) -> None:
    """Prompt tokens/s: 6.4 k in the mean, 10.5 k in the busiest ten minutes, 12.6 k to 12.8 k in
    the busiest minute (the published 12.6 k laid windows on another grid; 12.2 k end to end)."""
    profile = profiled("azure conv")
    windows = {window.label: window for window in profile.hardest_windows}
    mean = profile.total.input_tokens.mean * profile.requests / profile.span_s
    assert mean == pytest.approx(6_386, abs=1)
    ten = windows["busiest 10 minutes by prompt tokens"].input_tokens_per_s
    assert ten == pytest.approx(10_500, rel=0.005)
    minute = windows["busiest minute by prompt tokens"].input_tokens_per_s
    assert minute == pytest.approx(12_600, rel=0.02)
    assert "busiest hour by requests" not in windows  # 58 minutes only
