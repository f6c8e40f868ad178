"""One meaning, symbol and unit for every parameter name, whatever equation uses it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Symbol:
    """A parameter as the formulas write it."""

    parameter: str
    symbol: str
    unit: str
    meaning: str


_TABLE = """
parameters|P|parameters|parameters (active ones for FLOPs, resident ones for bytes)
bytes_per_parameter|b|B|bytes of one parameter as stored
token_flops|φ|FLOP/token|FLOPs of one token, 2P
weights|w|B|bytes of the weights
weight_bytes|b_w|B|bytes per weight
activation_bytes|b_a|B|bytes per input element
flops_per_s|F|FLOP/s|peak dense rate of all GPUs of the replica
bandwidth_bytes_per_s|W|B/s|memory bandwidth of all GPUs of the replica
ridge|R|FLOP/B|ridge point
layers|L|layers|layers of the model
attention_layers|L|layers|layers that cache keys and values
kv_heads|H_kv|heads|key/value heads, copies included: at least one a GPU
head_dim|d_h|elements|width of a key or value head, their mean where they differ
bytes_per_element|b|B|bytes of one element
kv_element_bytes|b|B|bytes of one element of the KV cache
kv_per_token|k|B/token|KV-cache bytes of one token
latent_dim|r|elements|width of the latent
rope_dim|d_r|elements|width of the rotary key beside it
index_bytes|x|B|bytes an indexer caches for one token and layer
copies|n|GPUs|GPUs that each keep the latent whole
full_kv_per_token|k_f|B/token|KV-cache bytes of one token in layers that read the whole context
window_kv_per_token|k_w|B/token|KV-cache bytes of one token in layers that read a window
prompt_tokens|T|tokens|prompt of one request
chunk_tokens|C|tokens|prefill tokens in a step
decode_seqs|D|sequences|decodes in a step
batch_seqs|B|sequences|sequences in a batch
context_tokens|S|tokens|history that a decode reads
activation_bytes_per_token|α|B/token|activation traffic of one token
draft_tokens|γ|tokens|draft tokens verified beside each decode
accepted_tokens|γ′|tokens|accepted drafts
step|τ|s|step time
limit_s|τ_max|s|latency limit
hit_rate|h|1|share of the prompt found in the prefix cache
kv_memory_bytes|M_kv|B|memory of the KV cache
capacity_tokens|S_cap|tokens|tokens the KV cache holds
preempted_tokens|S_p|tokens|tokens the victim had computed
a|x|s|compute time
b|y|s|memory time
sharpness|r|1|how abruptly two costs trade places
tokens|n|tokens|tokens in the step
inputs|K|elements|rows of the weight matrix
outputs|N|elements|columns of the weight matrix
flops|f|FLOP|FLOPs
moved_bytes|m|B|bytes moved
compute|e_c|1|share of the peak rate
memory|e_m|1|share of the bandwidth
fixed_s|t₀|s|time no work makes shorter
per_input_s|κ|s|time per element of the reduction
num_experts|E|experts|routed experts of a layer
experts_per_token|k_e|experts|experts a token is routed to
skew|g|1|exponent of routing skew
rank_skew|σ|1|exponent of popularity on expert-parallel ranks
routed_tokens|n_r|tokens|routed copies of tokens on one rank
touched|x|experts|distinct experts touched
weights_per_expert|W_e|parameters|weights of one expert on one rank
padding_tokens|pad|tokens|tokens that tiles add to a touched expert
bytes_per_token|k_l|B/token|cached bytes of one token
flops_per_token|f_t|FLOP/token|FLOPs a decode spends on one cached token
heads|H|heads|query heads of a rank
key_dim|d_k|elements|width of a key head
head_tile|t|heads|heads to which a kernel pads
value_dim|d_v|elements|width of a value head
message_bytes|m|B|bytes reduced
latency_s|a|s|time of an empty message
large_latency_s|a₂|s|start-up of the ring for large messages
large_bandwidth_bytes_per_s|b₂|B/s|bytes the ring reduces per second
link_bytes_per_s|l|B/s|rate of the link in one direction
world_size|t|GPUs|GPUs of the group
efficiency|e|1|share of the link's rate
hidden|h|elements|hidden size
attention_width|a|elements|queries, keys and values of a rank
mlp_width|m|elements|MLP width of a rank
value_heads|H_v|heads|value heads
bytes_each|b|B|bytes of one state element
past_tokens|p|tokens|prompt tokens before the chunk
window_tokens|w|tokens|attention window, 0 without one
mean_tokens|n̄|tokens|mean routed tokens of a rank
ranks|EP|GPUs|expert-parallel ranks
widest|w|elements|widest layer of a rank
width|w|elements|width of an expert on a rank
max_num_seqs|B_max|sequences|sequences the engine admits
vocab|V|tokens|vocabulary
bytes_per_logit|b_s|B|sampler bytes per logit
visible|M|B|memory the driver reports
utilization|u|1|gpu_memory_utilization
activation|A|B|peak activation
non_torch|N|B|NCCL, context and the like
graphs|G|B|CUDA graphs, where they count inside the budget
block_tokens|b|tokens|tokens of a KV block
in_flight_tokens|f|tokens|tokens scheduled and not yet computed
state_bytes|s|B|state of one recurrent layer, per sequence
layer_bytes_per_token|k_l|B/token|KV cache of one token in one layer
base|c₀|B|fixed reserve
per_chunk_token|c|B/token|reserve per chunk token
per_gpu|g|B|reserve per GPU of the replica
gpus|n|GPUs|GPUs
per_graph_seq|d|B|reserve per captured decode sequence
graph_seqs|s|sequences|largest captured decode batch
arrivals_per_s|λ|1/s|arrival rate
service_s|E[S]|s|mean service time
servers|c|servers|servers
service_cv2|c_s²|1|squared coefficient of variation of service times
arrival_cv2|c_a²|1|squared coefficient of variation of inter-arrival times
offered_load|a|1|λ·E[S]
wait_s|w|s|a wait
mean_wait_s|E[W]|s|mean wait
waiting_probability|p|1|probability of waiting at all
percentile|q|%|percentile
residence_s|W|s|mean time in the system
prefill_s_per_request|t_p|s|engine time of one prompt
output_tokens|o|tokens|output tokens of a request
decode_step_s|τ_B|s|decode step at that batch
prompt_output_mean|E[p·o]|tokens²|mean of prompt × output
output_mean|E[o]|tokens|mean output
output_square_mean|E[o²]|tokens²|mean squared output
running_seqs|N|sequences|running requests
held_mean|μ|tokens|mean KV tokens one holds
held_std|σ|tokens|standard deviation of the same
z|z|1|standard deviations of margin
mean_held_total|H|tokens|mean KV tokens held by all
power_kw|P|kW|power of the GPUs
prefill_tokens_per_s|s|tokens/s|prefill rate
usd_per_gpu_hour|p|$/h|price of a GPU
usd_hour|p|$/h|price of the fleet
tokens_per_s|v|tokens/s|tokens served
acceptance|a|1|probability that a draft is accepted
verify_step_s|τ_v|s|step that verifies B(γ + 1) tokens
draft_s|t_d|s|time of drafting
expected_tokens|E|tokens|tokens a verify pass yields
plain_step_s|τ_1|s|decode step without drafts
speculative_tpot|τ_s|s|time per token with drafts
kv_bytes|m|B|KV bytes of one request
transfer|t_x|s|transfer time
prefill_s|t_p|s|prefill time
requests_per_s|λ|1/s|request rate
decode_residence_s|o·τ|s|decode time of one request
decode_batch|B|sequences|decodes of one replica
"""

SYMBOLS = {
    row[0]: Symbol(parameter=row[0], symbol=row[1], unit=row[2], meaning=row[3])
    for row in (line.split("|") for line in _TABLE.strip().splitlines())
}
