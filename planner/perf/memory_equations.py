"""What fills a GPU: weights, the peak of a forward pass, the sampler, pages of KV cache."""

from __future__ import annotations

import math

ALIGNMENT_TOKENS = 16


def forward_activation_bytes(
    tokens: float, hidden: float, widest: float, bytes_per_element: float = 2.0
) -> float:
    """Return the peak activation of a forward pass in bytes: n·(2h + 2·w)·b.

    Input and residual (2·h) and the widest layer's input and output (2·w), w the larger of gate
    and up together or the attention inputs of one rank. Source: own derivation, checked on
    start-up logs only where it exceeds the sampler.

    >>> forward_activation_bytes(8192, 4096, 28672) / 2**30
    1.0
    """
    return tokens * (2.0 * hidden + 2.0 * widest) * bytes_per_element


def expert_workspace_bytes(
    tokens: float, experts_per_token: float, hidden: float, width: float
) -> float:
    """Return the workspace of grouped experts in bytes: 2·n·k·(max(2w, h) + w).

    Every routed copy holds gate and up, their product, and the output, at 16 bit; the first and
    the last share a buffer. Source: fused MoE kernels of vLLM.

    >>> expert_workspace_bytes(1024, 8, 2048, 768) / 2**20
    44.0
    """
    return 2.0 * tokens * experts_per_token * (max(2.0 * width, hidden) + width)


def sampler_bytes(max_num_seqs: float, vocab: float, bytes_per_logit: float) -> float:
    """Return the peak of the sampler's profile run in bytes: max_num_seqs·V·b_s.

    Logits at 16 bit and fp32 copies, and in vLLM before 0.17 sorts and their indices: 38 B a logit
    then, 14.5 B since. Source: fit on public start-up logs.

    >>> round(sampler_bytes(1024, 128256, 14.5) / 2**30, 2)
    1.77
    """
    return max_num_seqs * vocab * bytes_per_logit


def waiting_hidden_bytes(tokens: float, hidden: float, bytes_per_element: float = 2.0) -> float:
    """Return what a forward pass leaves while the sampler runs, in bytes: 2·n·h·b.

    The last layer's output and its residual. Source: start-up logs at 32 bit, where this part and
    the logits double and the rest of the sampler does not.

    >>> waiting_hidden_bytes(8192, 4096) / 2**20
    128.0
    """
    return 2.0 * tokens * hidden * bytes_per_element


def kv_memory_bytes(
    visible: float,
    utilization: float,
    weights: float,
    activation: float,
    non_torch: float,
    graphs: float = 0.0,
) -> float:
    """Return bytes left for the KV cache: visible·u − weights − activation − non-torch − graphs.

    Source: vLLM V1's determine_available_memory. Negative: the model does not fit.

    >>> round(kv_memory_bytes(79.19, 0.9, 14.99, 4.76, 0.13), 2)  # GiB, as a log printed 51.38
    51.39
    """
    return visible * utilization - weights - activation - non_torch - graphs


def block_bytes(block_tokens: int, bytes_per_token: float) -> float:
    """Return bytes of one block of KV over all layers of a rank: b·k.

    Source: vLLM V1 page size.

    >>> block_bytes(16, 131072) / 2**20
    2.0
    """
    return block_tokens * bytes_per_token


def sequence_blocks(tokens: int, block_tokens: int) -> int:
    """Return blocks one sequence takes in a layer group: ⌈n/b⌉.

    Source: PagedAttention. Half a block is wasted per sequence on average.

    >>> sequence_blocks(2049, 16)
    129
    """
    return math.ceil(tokens / block_tokens)


def window_blocks(tokens: int, window_tokens: int, in_flight_tokens: int, block_tokens: int) -> int:
    """Return blocks one sequence takes in a window group: min(⌈n/b⌉, ⌈(w − 1 + in-flight)/b⌉ + 1).

    Source: vLLM V1 SlidingWindowSpec; tokens of chunks in flight stay until they are computed.

    >>> window_blocks(100_000, 1024, 8192, 16)
    577
    """
    cap = window_cap(window_tokens, in_flight_tokens, block_tokens)
    return min(sequence_blocks(tokens, block_tokens), cap)


def window_cap(window_tokens: int, in_flight_tokens: int, block_tokens: int) -> int:
    """Return the most blocks a sequence holds in a window group: ⌈(w − 1 + in-flight)/b⌉ + 1.

    Source: vLLM V1 SlidingWindowSpec.max_admission_blocks_per_request.

    >>> window_cap(1024, 8192, 16)
    577
    """
    return math.ceil((window_tokens - 1 + in_flight_tokens) / block_tokens) + 1


def state_block_tokens(state_bytes: float, layer_bytes_per_token: float, block_tokens: int) -> int:
    """Return tokens of a block no smaller than one recurrent layer's state: max(16·⌈s/(16·k)⌉, b).

    Source: vLLM V1, attention block of hybrid models; 16 is what attention kernels are aligned to.

    >>> state_block_tokens(1_634_304, 2048, 16)
    800
    """
    unit = ALIGNMENT_TOKENS * layer_bytes_per_token
    return max(ALIGNMENT_TOKENS * math.ceil(state_bytes / unit), block_tokens)


def static_reserve_bytes(
    base: float,
    per_chunk_token: float,
    chunk_tokens: float,
    per_gpu: float,
    gpus: float,
    per_graph_seq: float,
    graph_seqs: float,
) -> float:
    """Return what SGLang keeps free beside weights and KV, in bytes.

    base + a·chunk + g·(tp·pp) + d·graph_seqs: activations, communication and decode graphs.
    Source: sglang 0.5.23, memory hook; the constants are the engine profile's.

    >>> static_reserve_bytes(512, 1.5, 8192, 128, 8, 2, 512)  # MiB
    14848.0
    """
    return base + per_chunk_token * chunk_tokens + per_gpu * gpus + per_graph_seq * graph_seqs
