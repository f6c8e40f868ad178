"""Pure equations: FLOPs, bytes, step time, memory, collectives, cost. Numbers in, numbers out."""
