"""The prefix cache: vLLM's LRU over KV blocks, keyed by the trace's block ids.

A block that is full has a hash; released, it stays findable until it is taken for something else.
Blocks are released tail first and taken from the front of one queue, so tails go before heads. A
*node* stands for one block that several requests may share, or for a run of blocks that no other
request can ever hit: the end of its prompt, its output. A request holds such blocks as a mere
number while it runs; they become a node when it gives them back, and only after a preemption can
they be hit again, by itself.

Taking blocks is put off: the kernel counts `free_blocks` down, and `settle` later takes what the
queue holds in excess. Nothing else moves the front of the queue, so the order is the engine's.
"""

from __future__ import annotations

from planner.sim.jit import part, rare
from planner.sim.kernel import ledger, windows
from planner.sim.kernel.world import World


@part
def key_of(w: World, begin: int, block: int) -> int:
    """Return the key of an engine block: the trace block of its last token, and which inside it."""
    st = w.st
    if st.trace_block == st.block_size:
        return int(w.ids[begin + block])
    unit = ((block + 1) * st.block_size - 1) // st.trace_block
    inside = block - unit * st.trace_block // st.block_size
    return int(w.ids[begin + unit]) * int(st.unit_blocks) + int(inside)


@part
def new_node(w: World) -> int:
    """Return an unused node."""
    st = w.st
    node = st.spare_node
    if node >= 0:
        st.spare_node = w.nodes[node].after
    else:
        node = st.node_top
        st.node_top += 1
    return int(node)


@part
def append(w: World, node: int) -> None:
    """Put a node at the back of the queue."""
    st = w.st
    w.nodes[node].before = st.lru_back
    w.nodes[node].after = -1
    if st.lru_back >= 0:
        w.nodes[st.lru_back].after = node
    else:
        st.lru_front = node
    st.lru_back = node


@part
def unlink(w: World, node: int) -> None:
    """Take a node out of the queue."""
    st = w.st
    before = w.nodes[node].before
    after = w.nodes[node].after
    if before >= 0:
        w.nodes[before].after = after
    else:
        st.lru_front = after
    if after >= 0:
        w.nodes[after].before = before
    else:
        st.lru_back = before


@part
def recycle(w: World, node: int) -> None:
    """Take a node out of the queue and out of use."""
    unlink(w, node)
    w.nodes[node].after = w.st.spare_node
    w.st.spare_node = node


@part
def add_copy(w: World, node: int, key: int) -> None:
    """File a block under its key, behind other blocks with the same content."""
    first = w.first_node[key]
    w.nodes[node].key = key
    if first < 0:
        w.first_node[key] = node
        w.nodes[node].copy_before = node
        w.nodes[node].copy_after = node
        return
    last = w.nodes[first].copy_before
    w.nodes[node].copy_before = last
    w.nodes[node].copy_after = first
    w.nodes[last].copy_after = node
    w.nodes[first].copy_before = node


@part
def forget_copy(w: World, node: int) -> None:
    """Take a block out of the file."""
    key = w.nodes[node].key
    after = w.nodes[node].copy_after
    if after == node:
        w.first_node[key] = -1
        return
    before = w.nodes[node].copy_before
    w.nodes[before].copy_after = after
    w.nodes[after].copy_before = before
    if w.first_node[key] == node:
        w.first_node[key] = after


@part
def note_run(w: World, place: int, node: int) -> None:
    """Note the node of a preempted request's own blocks; `place` is where it waits.

    First come, first served, that is its place in the stack; by priority it is its number.
    """
    if w.st.by_priority == 1:
        w.resume[place].run = node
    else:
        w.slots[place].stack_run = node


@part
def own_run(w: World, number: int) -> int:
    """Return the node of the queue's head's own blocks, -1 if none are left."""
    st = w.st
    if st.by_priority == 1:
        return int(w.resume[number].run)
    return int(w.slots[st.stacked - 1].stack_run) if st.stacked > 0 else -1


@rare
def settle(w: World) -> None:
    """Take from the front of the queue the blocks that were handed out since the last time."""
    st = w.st
    debt = st.blank_blocks + st.lru_blocks - st.free_blocks
    if debt <= 0:
        return
    blank = min(debt, st.blank_blocks)
    st.blank_blocks -= blank
    debt -= blank
    if debt > 0:
        st.cache_version += 1
    while debt > 0:
        node = st.lru_front
        taken = min(debt, w.nodes[node].count)
        w.nodes[node].count -= taken
        st.lru_blocks -= taken
        debt -= taken
        if w.nodes[node].count > 0:
            break
        if w.nodes[node].key >= 0:
            forget_copy(w, node)
        elif w.nodes[node].stack >= 0:
            note_run(w, w.nodes[node].stack, -1)
        recycle(w, node)


@rare
def look_up(w: World, number: int, total: int) -> None:
    """Find the blocks that the head of the queue could reuse (`hit_blocks`), one being left out.

    `hit_used` of them are held by running requests; the others count as free until then.
    """
    st = w.st
    settle(w)
    if st.hit_version == st.cache_version and st.hit_request == number:
        return
    prefix = w.prefix[number]
    full = (total - 1) // st.block_size
    most = min(prefix.shared_blocks, full)
    hits = 0
    used = 0
    while hits < most:
        node = w.first_node[key_of(w, prefix.begin, hits)]
        if node < 0:
            break
        if w.nodes[node].holders > 0:
            used += 1
        hits += 1
    if hits == prefix.shared_blocks:
        run = own_run(w, number)
        if run >= 0:
            hits += min(w.nodes[run].count, w.nodes[run].full, full - hits)
    st.hit_blocks = hits
    st.hit_used = used
    st.hit_request = number
    st.hit_version = st.cache_version


@rare
def take_hits(w: World, slot: int, run: int) -> None:
    """Let an admitted request hold the blocks that were found; `run` is its own, if it has one."""
    st = w.st
    prefix = w.prefix[w.slots[slot].request]
    shared = min(st.hit_blocks, prefix.shared_blocks)
    for j in range(shared):
        node = w.first_node[key_of(w, prefix.begin, j)]
        if w.nodes[node].holders == 0:
            unlink(w, node)
            st.lru_blocks -= 1
            st.free_blocks -= 1
        w.nodes[node].holders += 1
        w.held[slot, j] = node
    if run >= 0:
        own = st.hit_blocks - shared
        w.nodes[run].count -= own
        w.nodes[run].stack = -1
        st.lru_blocks -= own
        st.free_blocks -= own
        if w.nodes[run].count == 0:
            recycle(w, run)
    st.cache_version += 1


@rare
def file_blocks(w: World, slot: int, past: int, tokens: int) -> None:
    """File the shared blocks that become full as `past` tokens grow to `tokens`.

    The engine files them when it schedules them, so a request admitted in the same step can hit.
    """
    st = w.st
    prefix = w.prefix[w.slots[slot].request]
    begin = past // st.block_size
    end = min(prefix.shared_blocks, tokens // st.block_size)
    if end <= begin:
        return
    settle(w)
    for j in range(begin, end):
        node = new_node(w)
        w.nodes[node].count = 1
        w.nodes[node].holders = 1
        add_copy(w, node, key_of(w, prefix.begin, j))
        w.held[slot, j] = node
    st.cache_version += 1


@rare
def release_filed(w: World, slot: int, tokens: int, stack: int) -> None:
    """Give back the blocks of a slot with `tokens` computed tokens, tail first.

    `stack` is where the preempted request waits (see `note_run`), -1 if it will not come back. What
    is not full has no hash: the current engine takes it before anything else, 0.11 in its turn.
    """
    st = w.st
    settle(w)
    full = tokens // st.block_size
    blocks = ledger.blocks_of(tokens, st.block_size)
    shared = min(w.prefix[w.slots[slot].request].shared_blocks, full)
    queued = blocks - shared
    if st.full_sequence == 1:
        st.blank_blocks += blocks - full
        queued = full - shared
    if queued > 0:
        node = new_node(w)
        w.nodes[node].key = -1
        w.nodes[node].count = queued
        w.nodes[node].full = full - shared
        w.nodes[node].stack = stack
        if stack >= 0:
            note_run(w, stack, node)
        append(w, node)
        st.lru_blocks += queued
    st.free_blocks += blocks - shared
    for j in range(shared - 1, -1, -1):
        node = w.held[slot, j]
        w.nodes[node].holders -= 1
        if w.nodes[node].holders == 0:
            append(w, node)
            st.lru_blocks += 1
            st.free_blocks += 1
    st.cache_version += 1


@rare
def give_back(w: World, slot: int, tokens: int, stack: int) -> None:
    """Give back the blocks of a slot that holds `tokens` tokens."""
    if w.st.caching == 1:
        release_filed(w, slot, tokens, stack)
    elif w.st.windowed == 1:
        w.st.free_blocks += windows.held_blocks(w, slot, tokens)
    else:
        w.st.free_blocks += ledger.blocks_of(tokens, w.st.block_size)
