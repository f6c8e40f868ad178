"""What measured points call models and GPUs -> the catalogue's entries.

Benchmarks shorten names and append formats ("-FP8", "-AWQ"): the architecture is what counts here.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

from planner.errors import InputError
from planner.spec import catalog
from planner.spec.gpu import Gpu
from planner.spec.model import Model

GPU_NAMES = {
    "H100-SXM-80GB": "h100-sxm",
    "H100-80GB": "h100-sxm",
    "H800-80GB": "h800-sxm",
    "H200-SXM-141GB": "h200-sxm",
    "H20-3e-141GB": "h20",
    "B200-SXM-180GB": "b200-sxm",
    "B300-SXM": "b300-sxm",
    "A100-SXM-80GB": "a100-80gb-sxm",
    "A100-80GB": "a100-80gb-sxm",
    "A100-80GB PCIe": "a100-80gb-pcie",
    "A100-SXM-40GB": "a100-40gb-sxm",
    "A100-40GB": "a100-40gb-sxm",
    "GH200-96GB": "gh200",
    "MI300X-192GB": "mi300x",
    "MI325X-256GB": "mi325x",
    "MI355X-288GB": "mi355x",
    "MI355X 288GB": "mi355x",
    "RTX4090-24GB": "rtx-4090",
    "RTX 4090": "rtx-4090",
    "RTX 5090": "rtx-5090",
    "RTX-A6000-48GB": "rtx-a6000",
    "A40-48GB": "a40",
    "A10 (24GB)": "a10",
    "L4-24GB": "l4",
    "L40S-48GB": "l40s",
    "V100-32GB": "v100-32gb-sxm",
    "RTX-PRO-6000-96GB": "rtx-pro-6000",
    "RTX PRO 6000 96GB": "rtx-pro-6000",
}
# First match wins; names that are in the catalogue, less their format, are found before.
MODEL_NAMES = (
    (r"R1-Distill-Llama-(8|70)B", r"meta-llama/Llama-3.1-\1B-Instruct"),
    (r"R1-Distill-Qwen-(7|14|32)B", r"Qwen/Qwen2.5-\1B-Instruct"),
    (r"Llama-?3\.[13]-70B", "meta-llama/Llama-3.1-70B-Instruct"),
    (r"Llama-?3\.1-8B", "meta-llama/Llama-3.1-8B-Instruct"),
    (r"Llama-?3\.1-405B|Llama.*405B", "meta-llama/Llama-3.1-405B-Instruct"),
    (r"Llama-?3-(8|70)B", r"meta-llama/Meta-Llama-3-\1B-Instruct"),
    (r"Llama-?2-(7|13|70)B", r"meta-llama/Llama-2-\1b-hf"),
    (r"^LLaMA-7B$|/llama-7b$", "huggyllama/llama-7b"),
    (r"Llama-?4-Scout", "meta-llama/Llama-4-Scout-17B-16E-Instruct"),
    (r"Llama-?4-Maverick", "meta-llama/Llama-4-Maverick-17B-128E-Instruct"),
    (r"Qwen3\.5-397B", "Qwen/Qwen3.5-397B-A17B"),
    (r"Qwen3-Coder-Next|Qwen3-Next", "Qwen/Qwen3-Next-80B-A3B-Instruct"),
    (r"Qwen3-Coder-480B", "Qwen/Qwen3-Coder-480B-A35B-Instruct"),
    (r"Qwen3-(?:Coder-)?30B-A3B", "Qwen/Qwen3-30B-A3B"),
    (r"Qwen3-235B", "Qwen/Qwen3-235B-A22B"),
    (r"Qwen3-(8|14|32)B", r"Qwen/Qwen3-\1B"),
    (r"Qwen2(?:\.5)?-(7|14|32|72)B", r"Qwen/Qwen2.5-\1B-Instruct"),
    (r"Qwen2(?:\.5)?-0\.5B", "Qwen/Qwen2.5-0.5B-Instruct"),
    (r"DeepSeek-Math-V2|DeepSeek-V3\.2", "deepseek-ai/DeepSeek-V3.2"),
    (r"DeepSeek-V2-Lite", "deepseek-ai/DeepSeek-V2-Lite"),
    (r"DeepSeek-(R1|V3)", "deepseek-ai/DeepSeek-V3"),
    (r"Kimi-K2", "moonshotai/Kimi-K2-Instruct"),
    (r"Kimi-Linear", "moonshotai/Kimi-Linear-48B-A3B-Instruct"),
    (r"GLM-4\.7-Flash", "zai-org/GLM-4.7-Flash"),
    (r"GLM-4\.5-Air", "zai-org/GLM-4.5-Air"),
    (r"GLM-4\.[567](?!V|.*Flash)", "zai-org/GLM-4.6"),
    (r"GLM-5(?!V|.*Flash)", "zai-org/GLM-5"),
    (r"MiniMax-M2", "MiniMaxAI/MiniMax-M2.5"),
    (r"gpt-oss-(20|120)b", r"openai/gpt-oss-\1b"),
    (r"Nemotron-(?:3-)?Nano-30B", "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16"),
    (r"Mixtral-8x(7|22)B", r"mistralai/Mixtral-8x\1B-v0.1"),
    (r"Mistral-Small-(?:24B|3)", "mistralai/Mistral-Small-24B-Instruct-2501"),
    (r"Mistral-7B", "mistralai/Mistral-7B-Instruct-v0.3"),
    (r"GPT-J-6B", "EleutherAI/gpt-j-6b"),
    (r"bloom-?(?:176b)?$", "bigscience/bloom"),
    (r"Falcon-180B", "tiiuae/falcon-180B"),
    (r"phi-?4$", "microsoft/phi-4"),
)
FORMAT = re.compile(
    r"[-_. ](?:FP8(?:[-_](?:dynamic|KV|block))?|NVFP4|MXFP4|AWQ(?:-(?:INT4|4bit))?"
    r"|GPTQ(?:-Int4)?|W4A16|BF16|FP4|INT4)$",
    re.IGNORECASE,
)


def architecture_name(name: str) -> str:
    """Return a model's name without the format its weights were converted to.

    >>> architecture_name("Qwen/Qwen3-8B-FP8"), architecture_name("amd/Llama-3.1-405B-FP8-KV")
    ('Qwen/Qwen3-8B', 'amd/Llama-3.1-405B')
    """
    bare = FORMAT.sub("", name.strip())
    return bare if bare == name.strip() else architecture_name(bare)


@cache
def model_of(name: str) -> Model | None:
    """Return the catalogue's model of a measured name, None if it has none."""
    for candidate in (name, architecture_name(name)):
        if "/" not in candidate or candidate.startswith((".", "/")):
            continue
        try:
            return catalog.model(candidate)
        except InputError:
            continue
    for pattern, known in MODEL_NAMES:
        found = re.search(pattern, name, re.IGNORECASE)
        if found:
            return catalog.model(found.expand(known))
    return None


# NVFP4 releases leave attention (and mostly the shared experts) of MoE models at 16 bit: so say the
# exclusions in the quantisation files of nvidia/{DeepSeek-V3.1, GLM-5, Kimi-K2.5, MiniMax-M2.5,
# Qwen3.5-397B}-NVFP4, as shipped in aiconfigurator-core 0.12.0. Qwen3-235B's file excludes routers
# alone. Kimi's own int4 releases (from K2-Thinking on) quantise routed experts alone.
WHOLE_NVFP4 = re.compile(r"Qwen3-(235B|30B|Coder)", re.IGNORECASE)
INT4_EXPERTS = re.compile(r"Kimi-K2", re.IGNORECASE)
# Meta's own FP8 release of 405B quantises the MLPs alone (its config excludes every self_attn).
FP8_MLP_ALONE = re.compile(r"meta-llama/.*405B.*FP8", re.IGNORECASE)


def as_released(model: Model, name: str, weight_dtype: str) -> Model:
    """Return the model with those parts at 16 bit that its release in a format leaves there."""
    experts_alone = model.moe is not None and (
        (weight_dtype == "nvfp4" and not WHOLE_NVFP4.search(name))
        or (weight_dtype == "int4" and INT4_EXPERTS.search(name) is not None)
    )
    if experts_alone:
        return replace(model, quantized_experts_only=True)
    if weight_dtype.startswith("fp8") and FP8_MLP_ALONE.search(name):
        return replace(model, unquantized_attention=True)
    return model


@cache
def gpu_of(name: str) -> Gpu | None:
    """Return the catalogue's GPU of a measured name, None if it has none."""
    try:
        return catalog.gpu(GPU_NAMES.get(name, name))
    except InputError:
        return None


def family(name: str) -> str:
    """Return a short name that groups checkpoints of one architecture.

    >>> family("Qwen/Qwen3-8B-FP8"), family("nvidia/DeepSeek-R1-NVFP4"), family("org/unknown-9B")
    ('Qwen3-8B', 'DeepSeek-V3', 'unknown-9B')
    """
    model = model_of(name)
    return architecture_name(model.id if model else name).split("/")[-1]
