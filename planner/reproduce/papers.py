"""The papers whose claims can be recomputed, and the judging of all of one paper's claims."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator

from planner.reproduce.claim import Claim, Finding, Inputs, judge

# Name on the command line -> what the table calls it.
PAPERS = {
    "sarathi": "SARATHI (2023)",
    "sarathi-serve": "Sarathi-Serve (OSDI 2024)",
    "fastgen": "DeepSpeed-FastGen (2024)",
    "distserve": "DistServe (OSDI 2024)",
    "splitwise": "Splitwise (ISCA 2024)",
    "sglang": "SGLang (2024)",
    "vllm": "vLLM V1's own advice",
}


def claims_of(paper: str) -> tuple[Claim, ...]:
    """Return every claim of one of PAPERS."""
    module = importlib.import_module(f"planner.reproduce.{paper.replace('-', '_')}")
    found: tuple[Claim, ...] = module.claims()
    return found


def findings(papers: Iterable[str], inputs: Inputs, *, replays: bool = True) -> Iterator[Finding]:
    """Judge the claims of `papers` in order; without `replays` the ones that take seconds go."""
    for paper in papers:
        for claim in claims_of(paper):
            if replays or not claim.replays:
                yield judge(claim, inputs)
