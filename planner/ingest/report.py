"""What ingest found: the rows it used, the rows it did not, and what it had to assume."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from planner.ingest.requests import Requests


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestReport:
    """How the files were read and what was set aside.

    `rejected` and `flagged` entries have the keys `reason`, `count`, `example` and `effect`.
    `requests_seen` also counts requests that arrived but could not be used (failed, cancelled,
    tokens unknown, no class); `input_tokens_seen` and `output_tokens_seen` sum their known tokens.
    """

    files: tuple[str, ...]
    format: str
    format_reason: str
    time_unit: str
    assumptions: tuple[str, ...]
    rows_read: int
    rows_used: int
    rejected: tuple[Mapping[str, object], ...]
    flagged: tuple[Mapping[str, object], ...]
    requests_seen: int
    input_tokens_seen: int
    output_tokens_seen: int

    def rejected_count(self, *reasons: str) -> int:
        """Return how many rows were left out for any of `reasons` (all reasons when none given)."""
        return sum(
            int(str(entry["count"]))
            for entry in self.rejected
            if not reasons or entry["reason"] in reasons
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedTrace:
    """A trace ready for profiling and replay, with the story of its reading."""

    requests: Requests
    report: IngestReport
