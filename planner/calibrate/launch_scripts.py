"""What InferenceX's launch scripts pass to SGLang and its points file does not say.

Source: SemiAnalysisAI/InferenceX, benchmarks/single_node/<model>_<format>_<gpu>.sh (2026-11-29).
A column of the points file that states a setting goes before these.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from planner.calibrate.measured import Row, number, text
from planner.spec.gpu import Gpu

INFERENCEX = "aic_silicon_inferencex"
MANY_CLIENTS = 16  # from here on the scripts look at the inbox less often


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """Flags of one launch script."""

    chunk_tokens: int = 8192  # --chunked-prefill-size
    poll_steps: float = 1.0  # --scheduler-recv-interval below MANY_CLIENTS …
    poll_steps_many: float = 1.0  # … and from it on
    state_bytes: float | None = None  # --mamba-ssm-dtype; None: the model's own


# Model, GPU, weight format -> flags.
SCRIPTS: tuple[tuple[str, str, str, Script], ...] = (
    # Its scripts of today allow 128 or 256 requests at a time; these runs had 512: older scripts,
    # so their chunks are not taken from them.
    ("DeepSeek", "b200", "fp[48]", Script(poll_steps=10, poll_steps_many=30)),
    (
        r"Qwen3\.5",
        "b300",
        "fp8",
        Script(chunk_tokens=16384, poll_steps=10, poll_steps_many=10, state_bytes=2.0),
    ),
    (
        r"Qwen3\.5",
        "b300",
        "fp4",
        Script(chunk_tokens=32768, poll_steps=10, poll_steps_many=30, state_bytes=2.0),
    ),
    (
        r"Qwen3\.5",
        "b[23]00",
        "bf16",
        Script(chunk_tokens=32768, poll_steps=10, poll_steps_many=30),
    ),
    (
        r"Qwen3\.5",
        "b200",
        "fp[48]",
        Script(chunk_tokens=32768, poll_steps=10, poll_steps_many=30),
    ),
    (r"Qwen3\.5", "h200", "fp8", Script(chunk_tokens=16384, state_bytes=2.0)),
)


def launch_script(row: Row, gpu: Gpu) -> Script | None:
    """Return the flags of a row's launch script, None where none is known."""
    if text(row, "engine") != "sglang" or text(row, "source_id") != INFERENCEX:
        return None
    for model, card, dtype, script in SCRIPTS:
        if (
            re.search(model, text(row, "model"))
            and re.match(card, gpu.id)
            and re.match(dtype, text(row, "weight_dtype"))
        ):
            return script
    return None


def poll_steps(row: Row, gpu: Gpu) -> float:
    """Return steps between SGLang's looks at its inbox."""
    script = launch_script(row, gpu)
    if script is None:
        return 1.0
    many = (number(row, "concurrency") or 0.0) >= MANY_CLIENTS
    return script.poll_steps_many if many else script.poll_steps
