"""Models, GPUs and engines written out here, so that tests do not move with the catalogue."""

from dataclasses import replace

from planner.spec.deployment import Deployment
from planner.spec.engine import BatchDefault, Engine, MemoryRule
from planner.spec.gpu import Gpu
from planner.spec.model import Mla, Model, Moe

GIB = 2**30

LLAMA_70B = Model(
    id="meta-llama/Llama-3.1-70B",
    architecture="LlamaForCausalLM",
    num_layers=80,
    hidden_size=8192,
    num_attention_heads=64,
    num_kv_heads=8,
    head_dim=128,
    intermediate_size=28672,
    vocab_size=128256,
    max_model_len=131072,
    norm_weights_per_layer=2 * 8192,
    final_norm_weights=8192,
    published_parameters=70553706496,
    source="published config.json",
    date="2024-07",
)
LLAMA_8B = replace(
    LLAMA_70B,
    id="meta-llama/Llama-3.1-8B",
    num_layers=32,
    hidden_size=4096,
    num_attention_heads=32,
    intermediate_size=14336,
    norm_weights_per_layer=2 * 4096,
    final_norm_weights=4096,
    published_parameters=8030261248,
)
LLAMA_2_7B = replace(
    LLAMA_8B,
    id="meta-llama/Llama-2-7b",
    num_kv_heads=32,
    intermediate_size=11008,
    vocab_size=32000,
    max_model_len=4096,
    published_parameters=6738415616,
)
GEMMA_LIKE = replace(
    LLAMA_8B, id="windowed", sliding_window=1024, sliding_layers=24, tie_word_embeddings=True
)
DEEPSEEK_V3 = replace(
    LLAMA_8B,
    id="deepseek-ai/DeepSeek-V3",
    num_layers=61,
    hidden_size=7168,
    num_attention_heads=128,
    num_kv_heads=128,
    intermediate_size=18432,
    vocab_size=129280,
    moe=Moe(
        num_experts=256,
        experts_per_token=8,
        expert_intermediate_size=2048,
        shared_intermediate_size=2048,
        layers=58,
    ),
    mla=Mla(
        q_lora_rank=1536,
        kv_lora_rank=512,
        qk_rope_head_dim=64,
        qk_nope_head_dim=128,
        v_head_dim=128,
    ),
    weight_dtype="fp8_block",
    published_parameters=671e9,
)
MIXTRAL = replace(
    LLAMA_8B,
    id="mistralai/Mixtral-8x7B",
    intermediate_size=0,
    vocab_size=32000,
    moe=Moe(num_experts=8, experts_per_token=2, expert_intermediate_size=14336, layers=32),
    published_parameters=46.7e9,
)

H100 = Gpu(
    id="h100-sxm",
    name="H100-80GB-SXM",
    memory_bytes_marketing=80e9,
    memory_bytes_visible=79.19 * GIB,
    memory_bandwidth_bytes_per_s=3.35e12,
    peak_flops_per_s={"bf16": 989.4e12, "fp16": 989.4e12, "fp8": 1978.9e12},
    scaleup_link="NVLink4",
    scaleup_bytes_per_s=450e9,
    scaleup_domain_gpus=8,
    pcie_bytes_per_s=64e9,
    gpus_per_node=8,
    tdp_w=700,
    source="datasheet",
    date="2024",
    confidence="high",
    calibration="h100_sxm",
)
A100 = replace(
    H100,
    id="a100-80gb-sxm",
    memory_bytes_visible=79.25 * GIB,
    memory_bandwidth_bytes_per_s=2.039e12,
    peak_flops_per_s={"bf16": 312e12, "fp16": 312e12},
    scaleup_bytes_per_s=300e9,
    pcie_bytes_per_s=32e9,
    calibration="a100_sxm",
)
SEED_GPU = replace(
    H100,
    id="seed",
    peak_flops_per_s={"bf16": 300e12},
    memory_bandwidth_bytes_per_s=2e12,
    calibration="",
)
NO_LINK = replace(
    H100, id="pcie-only", scaleup_bytes_per_s=0.0, scaleup_domain_gpus=1, calibration=""
)

VLLM = Engine(
    id="vllm",
    version="0.33",
    policy="vllm_v1",
    admission="full_sequence",
    async_scheduling=True,
    mixes_prefill_and_decode=True,
    block_tokens=16,
    prefix_caching_default=True,
    batch_defaults=(
        BatchDefault(
            min_memory_bytes=0.0, excluded_names=(), max_num_batched_tokens=8192, max_num_seqs=1024
        ),
    ),
    cuda_graph_sizes=(1, 2, 4, *range(8, 256, 8), *range(256, 513, 16)),
    memory=MemoryRule(
        rule="vllm_v1",
        gpu_memory_utilization=0.9,
        sampler_bytes_per_seq_vocab=38.6,
        non_torch_bytes_by_tp={1: 0.13 * GIB, 2: 0.55 * GIB, 4: 1.0 * GIB, 8: 1.7 * GIB},
        graphs_in_budget=False,
        graph_bytes=0.6 * GIB,
    ),
    layer_overhead_s=32e-6,
    seq_overhead_s=22e-6,
    step_overhead_s=0.0,
    prefill_layer_overhead_s=0.0,
    launch_command="vllm serve",
    flags={},
    source="test",
    date="2026",
)


def deployment(model: Model, gpu: Gpu, **changes: object) -> Deployment:
    """A plain deployment of `model` on `gpu`."""
    values: dict[str, object] = {
        "gpu": gpu.id,
        "model": model.id,
        "engine": "vllm",
        "engine_version": "0.33",
        "weight_dtype": "bf16",
        "max_num_batched_tokens": 8192,
        "max_num_seqs": 1024,
        "max_model_len": 8192,
        "gpu_memory_utilization": 0.9,
        **changes,
    }
    return Deployment(**values)  # type: ignore[arg-type]
