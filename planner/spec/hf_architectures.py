"""The model classes whose `config.json` the planner understands."""

from __future__ import annotations

from collections.abc import Callable

from planner.spec import hf_dense as dense
from planner.spec import hf_hybrid as hybrid
from planner.spec import hf_moe as moe
from planner.spec.hf_fields import Fields
from planner.spec.hf_shape import Shape

ARCHITECTURES: dict[str, Callable[[Fields], Shape]] = {
    "BloomForCausalLM": dense.bloom,
    "DeepseekV2ForCausalLM": moe.deepseek,
    "DeepseekV32ForCausalLM": moe.deepseek_sparse,
    "DeepseekV3ForCausalLM": moe.deepseek,
    "FalconForCausalLM": dense.falcon,
    "Gemma2ForCausalLM": dense.gemma2,
    "Gemma3ForCausalLM": dense.gemma3,
    "Gemma3ForConditionalGeneration": dense.gemma3_multimodal,
    "Glm4MoeForCausalLM": moe.glm4_moe,
    "GlmMoeDsaForCausalLM": moe.deepseek_sparse,
    "Glm4MoeLiteForCausalLM": moe.deepseek,
    "GptOssForCausalLM": moe.gpt_oss,
    "GPTJForCausalLM": dense.gptj,
    "GraniteForCausalLM": dense.llama,
    "KimiK25ForConditionalGeneration": moe.kimi_multimodal,
    "KimiLinearForCausalLM": hybrid.kimi_linear,
    "Llama4ForConditionalGeneration": moe.llama4,
    "LlamaForCausalLM": dense.llama,
    "MiniMaxM2ForCausalLM": moe.minimax_m2,
    "Mistral3ForConditionalGeneration": dense.mistral_multimodal,
    "MistralForCausalLM": dense.mistral,
    "MixtralForCausalLM": moe.mixtral,
    "NemotronHForCausalLM": hybrid.nemotron_h,
    "OPTForCausalLM": dense.opt,
    "Phi3ForCausalLM": dense.phi3,
    "Qwen2ForCausalLM": dense.qwen2,
    "Qwen2MoeForCausalLM": moe.qwen2_moe,
    "Qwen3ForCausalLM": dense.qwen3,
    "Qwen3MoeForCausalLM": moe.qwen3_moe,
    "Qwen3NextForCausalLM": moe.qwen3_next,
    "Qwen3_5ForConditionalGeneration": moe.qwen3_5,
    "Qwen3_5MoeForConditionalGeneration": moe.qwen3_5,
}
