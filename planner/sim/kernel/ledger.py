"""Who is running and what they hold: the admission-ordered list, KV blocks, decode totals."""

from __future__ import annotations

from planner.sim.jit import part, rare, windowed
from planner.sim.kernel import heap
from planner.sim.kernel.heap import SLOT_BITS, SLOT_MASK
from planner.sim.kernel.world import World

# A window crossing's payload is (slot << GROUP_BITS) | (kind << KIND_BIT) | window group.
GROUP_BITS = 6
KIND_BIT = 5
GROUP_MASK = (1 << KIND_BIT) - 1
FILLS, SHEDS = 0, 1  # the context fills the window, or soon gives blocks back


@part
def blocks_of(tokens: int, block_size: int) -> int:
    """Return the blocks that hold `tokens` tokens."""
    return (tokens + block_size - 1) // block_size


@part
def take_slot(w: World) -> int:
    """Append a new entry to the running list; return its slot."""
    st = w.st
    st.free_slots -= 1
    slot = w.slots[st.free_slots].vacant
    w.slots[slot].before = st.back
    w.slots[slot].after = -1
    w.slots[slot].turn = st.turns
    st.turns += 1
    if st.back >= 0:
        w.slots[st.back].after = slot
    else:
        st.front = slot
    st.back = slot
    st.running += 1
    return int(slot)


@part
def drop_slot(w: World, slot: int) -> None:
    """Take a slot off the running list."""
    st = w.st
    before = w.slots[slot].before
    after = w.slots[slot].after
    if before >= 0:
        w.slots[before].after = after
    else:
        st.front = after
    if after >= 0:
        w.slots[after].before = before
    else:
        st.back = before
    w.slots[st.free_slots].vacant = slot
    st.free_slots += 1
    st.running -= 1


@part
def is_completion(w: World, entry: int) -> bool:
    """Return whether a completion is still due: not if its sequence was preempted or delayed."""
    slot = w.slots[entry & SLOT_MASK]
    return bool(slot.decoding == 1 and slot.finish_step == entry >> SLOT_BITS)


@part
def push_completion(w: World, slot: int) -> None:
    """Note the step at which a decode finishes; drop stale notes when the heap is full."""
    st = w.st
    if st.heap_size == len(w.heap):
        kept = 0
        for i in range(st.heap_size):
            if is_completion(w, w.heap[i]):
                w.heap[kept] = w.heap[i]
                kept += 1
        heap.heapify(w.heap, kept)
        st.heap_size = kept
    entry = (w.slots[slot].finish_step << SLOT_BITS) | slot
    st.heap_size = heap.push(w.heap, st.heap_size, entry)


@part
def next_completion(w: World) -> int:
    """Return the step at which the next decode finishes (there is one)."""
    while not is_completion(w, w.heap[0]):
        w.st.heap_size = heap.pop(w.heap, w.st.heap_size)
    return int(w.heap[0] >> SLOT_BITS)


@part
def crossing_step(w: World, slot: int, g: int, kind: int) -> int:
    """Return the step from which a decode's context has filled window `g`, or begins to shed."""
    due = w.groups[g].window - w.slots[slot].start
    return int(due + kind * (1 + w.st.asynchronous))


@rare
def is_crossing(w: World, entry: int) -> bool:
    """Return whether a window crossing is still due."""
    payload = entry & SLOT_MASK
    place = payload >> GROUP_BITS
    kind = (payload >> KIND_BIT) & 1
    g = payload & GROUP_MASK
    slot = w.slots[place]
    if slot.decoding == 0 or crossing_step(w, place, g, kind) != entry >> SLOT_BITS:
        return False
    if kind == SHEDS:
        return bool(slot.settled == 1 and (slot.shedding >> g) & 1 == 0)
    return bool((slot.growing >> g) & 1 == 1)


@rare
def push_crossing(w: World, slot: int, g: int, kind: int) -> None:
    """Note the step at which a decode's context crosses window group `g`."""
    st = w.st
    if st.cross_size == len(w.cross_heap):
        kept = 0
        for i in range(st.cross_size):
            if is_crossing(w, w.cross_heap[i]):
                w.cross_heap[kept] = w.cross_heap[i]
                kept += 1
        heap.heapify(w.cross_heap, kept)
        st.cross_size = kept
    entry = (crossing_step(w, slot, g, kind) << SLOT_BITS) | (slot << GROUP_BITS)
    st.cross_size = heap.push(w.cross_heap, st.cross_size, entry | (kind << KIND_BIT) | g)


@windowed
def count_shedding(w: World, slot: int, g: int) -> None:
    """Count a settled decode whose context has outgrown window `g` by its residue class."""
    s = w.slots[slot]
    s.shedding |= 1 << g
    w.shed[g, (s.start - w.st.asynchronous - w.groups[g].window) % w.st.block_size] += 1


@part
def pass_crossings(w: World) -> None:
    """Stop the growth of decodes whose context has filled a window; have them shed."""
    st = w.st
    while st.cross_size > 0 and w.cross_heap[0] >> SLOT_BITS <= st.step:
        entry = w.cross_heap[0]
        if is_crossing(w, entry):
            g = entry & GROUP_MASK
            slot = (entry & SLOT_MASK) >> GROUP_BITS
            if (entry >> KIND_BIT) & 1 == SHEDS:
                count_shedding(w, slot, g)
            else:
                w.slots[slot].growing ^= 1 << g
                w.groups[g].growing -= 1
        st.cross_size = heap.pop(w.cross_heap, st.cross_size)


@part
def join_decodes(w: World, slot: int) -> None:
    """Turn a slot whose prompt is computed into a decode: `total` + 1 tokens from the next step."""
    st = w.st
    s = w.slots[slot]
    request = w.requests[s.request]
    tokens = s.total + 1
    s.decoding = 1
    s.start = tokens - st.step
    s.finish_step = st.step + request.output_tokens - s.generated
    st.decodes += 1
    st.kv_tokens += tokens
    w.residue[(s.start - 1) % st.block_size] += 1
    w.classes[request.class_id] += 1
    push_completion(w, slot)
    for g in range(len(w.groups)):
        group = w.groups[g]
        group.kv_tokens += min(tokens, group.window)
        if tokens < group.window:
            s.growing |= 1 << g
            group.growing += 1
            push_crossing(w, slot, g, FILLS)


@part
def leave_decodes(w: World, slot: int) -> None:
    """Take a slot out of the decode totals, before its next step."""
    st = w.st
    s = w.slots[slot]
    tokens = s.start + st.step
    s.decoding = 0
    st.decodes -= 1
    st.kv_tokens -= tokens
    w.residue[(s.start - 1) % st.block_size] -= 1
    w.classes[w.requests[s.request].class_id] -= 1
    for g in range(len(w.groups)):
        group = w.groups[g]
        group.kv_tokens -= min(tokens, group.window)
        group.growing -= (s.growing >> g) & 1
    s.growing = 0


@part
def crossings(w: World, steps: int) -> int:
    """Return how many blocks the decodes take in the next `steps` steps."""
    st = w.st
    cycles = steps // st.block_size
    total = cycles * st.decodes
    residue = st.cross
    for _ in range(steps - cycles * st.block_size):
        total += w.residue[residue]
        residue = residue - 1 if residue > 0 else st.block_size - 1
    return int(total)


@part
def steps_within(w: World, steps: int) -> int:
    """Return how many of the next `steps` steps the free blocks are enough for."""
    st = w.st
    free = st.free_blocks
    if st.decodes * (steps // st.block_size + 1) <= free:
        return steps
    cycles = min(steps // st.block_size, free // st.decodes)
    done = cycles * st.block_size
    free -= cycles * st.decodes
    residue = st.cross
    while done < steps and w.residue[residue] <= free:
        free -= w.residue[residue]
        residue = residue - 1 if residue > 0 else st.block_size - 1
        done += 1
    return int(done)


@part
def advance_steps(w: World, steps: int) -> None:
    """Move every decode forward by `steps` tokens."""
    st = w.st
    st.step += steps
    st.cross = (st.cross - steps) % st.block_size
    st.kv_tokens += steps * st.decodes
    if len(w.groups) > 0:
        for g in range(len(w.groups)):
            w.groups[g].kv_tokens += steps * w.groups[g].growing
        pass_crossings(w)
