"""Measured rows whose own figures say that the run was not, or not only, what the row states."""

from __future__ import annotations

import re

from planner.calibrate.measured import Row, number, text


def may_speculate(row: Row) -> bool:
    """Whether a row may hide speculative decoding.

    The dump of 2026-03-25 holds plain and MTP runs of SGLang 0.5.9's fp8 deployments under the same
    columns: of P01653 and P00375, equal in everything stated, one takes 6.7 ms a token and the
    other 8.8 ms. The dump of 2026-04-06 repeats eight of them. A run that cannot be told apart
    calibrates nothing; it is scored all the same.
    """
    return (
        text(row, "engine") == "sglang"
        and text(row, "engine_version") == "0.5.9"
        and text(row, "weight_dtype") == "fp8"
        and re.search(r"id=2026_0(3_25|4_06)_", text(row, "source_ref")) is not None
    )


def another_run(row: Row) -> bool:
    """Whether a row's own figures contradict the deployment it states.

    Kimi-K2.6 on H200: 9 ms a token at one client and 365 at 100, where other runs of the same
    weights take 60. GLM-5 "as checkpoint" on 8 H200: 1.49 TB do not fit. gpt-oss at 512 clients:
    4 ms a token, less than at 16, and TTFT of minutes. They calibrate nothing, and stay scored.
    """
    engine, model = text(row, "engine"), text(row, "model")
    hopper = text(row, "gpu").startswith("H200")
    if engine == "sglang" and hopper:
        return "Kimi-K2.6" in model or ("GLM-5" in model and "fp8" not in text(row, "weight_dtype"))
    return engine == "vllm" and "gpt-oss" in model and (number(row, "concurrency") or 0.0) >= 512


def compiles_first(row: Row) -> bool:
    """Whether the first requests of a run waited for kernels to be compiled.

    SGLang's fp4 runs of DeepSeek without a version (late 2025) have a mean TTFT of 5 to 9 s at any
    concurrency and prompt length: a stall of about 70 s that the opening tenth of the requests met.
    """
    return (
        text(row, "engine") == "sglang"
        and not text(row, "engine_version")
        and text(row, "weight_dtype") == "fp4"
    )
