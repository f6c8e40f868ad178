"""Requests as the lines of a trace that load generators replay: Mooncake's format.

Fields and the rule for `hash_ids` (as many as blocks of the prompt, the last one begun) as AIPerf
reads them: its `docs/benchmark-modes/trace-replay.md`, read November 2026.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count

from planner.ingest.requests import Requests


def trace_lines(requests: Requests, start_s: float) -> Iterator[str]:
    """Yield one JSON object a request, times in whole milliseconds from `start_s` on.

    Prefix ids are numbered anew in order of first use; blocks of a prompt that the log has no id
    for get one of their own, which nothing shares.
    """
    numbers: dict[int, int] = {}
    fresh = count()
    for row in range(len(requests)):
        length = max(1, int(requests.input_tokens[row]))
        line: dict[str, object] = {
            "timestamp": max(0, round((float(requests.arrival_s[row]) - start_s) * 1000.0)),
            "input_length": length,
            "output_length": max(1, int(requests.output_tokens[row])),
        }
        if requests.block_tokens:
            blocks = -(-length // requests.block_tokens)
            known = _block_ids(requests, row)[:blocks]
            for each in known:
                if each not in numbers:
                    numbers[each] = next(fresh)
            unknown = [next(fresh) for _ in range(blocks - len(known))]
            line["hash_ids"] = [numbers[each] for each in known] + unknown
        yield json.dumps(line) + "\n"


def _block_ids(requests: Requests, row: int) -> list[int]:
    begin, end = requests.block_offset[row : row + 2]
    return [int(each) for each in requests.block_ids[begin:end]]


def class_lines(requests: Requests) -> Iterator[str]:
    """Yield the class of every request, a name a line."""
    for which in requests.class_id:
        yield requests.class_names[int(which)] + "\n"
