"""What `planner window` says of the file it wrote."""

from __future__ import annotations

from planner.report import format as fmt
from planner.solve.replica_window import ReplicaWindow
from planner.text import counted


def told(found: ReplicaWindow, path: str) -> str:
    """Return what the lines are, which of them are not judged, and the block size to name."""
    requests = found.requests
    lead = int((requests.arrival_s < found.start_s + found.lead_s).sum())
    what = f"{counted(len(requests), 'request')} of one replica, {found.label}"
    lines = [f"{path}: {what}, {fmt.factor(found.share)} the trace's traffic"]
    if lead:
        lines.append(
            f"The first {fmt.count(lead)}, {fmt.duration(found.lead_s)}, lead in: "
            "hold only the later ones against the targets."
        )
    if requests.block_tokens:
        lines.append(
            f"A hash id stands for {fmt.count(requests.block_tokens)} tokens: "
            f"tell the generator (AIPerf: --isl-block-size {requests.block_tokens})."
        )
    return "\n".join(lines)
