"""Prompts that a benchmark sends more than once, and that the prefix cache then holds."""

from __future__ import annotations

from planner.calibrate.measured import Row, number, text
from planner.spec.model import Model

COOKBOOK = "sglang_cookbook"
# The cookbook's recipe: one server, prompts of 1 k, then 1 k with answers of 8 k, then 8 k, each at
# 1, 16 and 100 (64) clients with 10, 80 and 500 (320) requests. SGLang's benchmark draws request i
# of every run from one seed: its text is that of conversation i, repeated up to its length.
REQUESTS_PER_CLIENT = 5.0
SENT_BEFORE = {1: 0, 16: 10, 64: 80, 100: 80}  # at the same prompt length
LONG_TOKENS = 2000.0  # tells the runs of 8 k (uniform: 4 k in the mean) from those of 1 k


def cached_tokens(row: Row, model: Model) -> tuple[float, float]:
    """Return prompt tokens found in the prefix cache: a request's mean, and the opening burst's.

    Only of the cookbook's recipe, with a prefix cache on, of models whose every layer can reuse one
    (the releases of these runs kept none for layers with a constant state). What shows it: 64
    prompts of 4 k that arrive together at 70 B on eight A100 have a P99 TTFT of 1.9 s, and to
    compute them would take 14 s at the datasheet's FLOPs.
    """
    clients, requests = number(row, "concurrency"), number(row, "n_requests")
    prompt, output = number(row, "input_tokens"), number(row, "output_tokens")
    recipe = text(row, "source_id") == COOKBOOK and text(row, "prefix_caching").startswith("on")
    if not (recipe and clients and requests and prompt and output) or model.linear_attention:
        return 0.0, 0.0
    if int(clients) not in SENT_BEFORE or requests not in (10.0, REQUESTS_PER_CLIENT * clients):
        return 0.0, 0.0
    if output > LONG_TOKENS:  # every prompt was sent with the answers of 1 k
        return prompt, prompt
    before = SENT_BEFORE[int(clients)]
    opening = prompt * min(1.0, before / clients)
    return prompt * before / requests, opening
