"""What GPUs cost."""

from __future__ import annotations

from planner.units import HOURS_PER_MONTH


def usd_per_hour(gpus: float, usd_per_gpu_hour: float) -> float:
    """Return the price of a fleet in $/h: n·p.

    Source: definition.

    >>> usd_per_hour(8, 2.95)
    23.6
    """
    return gpus * usd_per_gpu_hour


def usd_per_month(usd_hour: float) -> float:
    """Return the price of a month in $: 730 h, a twelfth of a year.

    Source: the cloud providers' own convention.

    >>> usd_per_month(10.0)
    7300.0
    """
    return usd_hour * HOURS_PER_MONTH


def usd_per_million_tokens(usd_hour: float, tokens_per_s: float) -> float:
    """Return $ per million tokens at a rate: 10⁶·($/h)/(3600·tokens/s).

    Source: definition. State whether tokens are input, output or both.

    >>> usd_per_million_tokens(3.6, 1000)
    1.0
    """
    return usd_hour * 1e6 / (3600.0 * tokens_per_s)


def kwh_per_million_tokens(power_kw: float, tokens_per_s: float) -> float:
    """Return energy per million tokens in kWh: 10⁶·P/(3600·tokens/s).

    Source: definition.

    >>> kwh_per_million_tokens(7.2, 2000)
    1.0
    """
    return power_kw * 1e6 / (3600.0 * tokens_per_s)
