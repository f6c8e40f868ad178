"""Reading a config.json: quantisation, refusals by name, every problem at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import InputError
from planner.perf.parameters import parameters
from planner.spec import catalog
from planner.spec.hf_config import model_from_config, supported_architectures

LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 512,
    "intermediate_size": 1024,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "vocab_size": 1000,
    "max_position_embeddings": 2048,
    "torch_dtype": "bfloat16",
}
MOE: dict[str, Any] = {
    **LLAMA,
    "architectures": ["Qwen3MoeForCausalLM"],
    "num_experts": 16,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 256,
}


def refusal(config: dict[str, Any]) -> str:
    with pytest.raises(InputError) as caught:
        model_from_config(config, "mine")
    return str(caught.value)


def test_unknown_architecture_is_refused_by_name_with_the_supported_ones() -> None:
    message = refusal({**LLAMA, "architectures": ["MambaForCausalLM"]})
    assert "'MambaForCausalLM'" in message
    assert all(name in message for name in supported_architectures())


def test_missing_architecture_is_refused() -> None:
    assert "architectures: missing" in refusal({"hidden_size": 4})


def test_a_misspelt_architecture_names_the_nearest() -> None:
    message = refusal({**LLAMA, "architectures": ["LLamaForCausalLM"]})
    assert "nearest is LlamaForCausalLM" in message


@pytest.mark.parametrize(
    ("quantization", "expected"),
    [
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8_block"),
        ({"quant_method": "fp8"}, "fp8"),
        ({"quant_method": "fbgemm_fp8"}, "fp8"),
        ({"quant_method": "awq", "bits": 4}, "int4"),
        ({"quant_method": "awq", "w_bit": 4}, "int4"),
        ({"quant_method": "gptq", "bits": 4}, "int4"),
        ({"quant_method": "mxfp4"}, "mxfp4"),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, "fp8"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4"),
        ({"quant_algo": "FP8", "producer": {"name": "modelopt"}}, "fp8"),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "int"}}},
            },
            "int4",
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "float"}}},
            },
            "fp8",
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {
                    "group_0": {"weights": {"num_bits": 8, "type": "float", "strategy": "block"}}
                },
            },
            "fp8_block",
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "format": "nvfp4-pack-quantized",
                "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "float"}}},
            },
            "nvfp4",
        ),
    ],
)
def test_quantisations(quantization: dict[str, Any], expected: str) -> None:
    model = model_from_config({**LLAMA, "quantization_config": quantization}, "mine")
    assert model.weight_dtype == expected


@pytest.mark.parametrize(
    ("quantization", "words"),
    [
        ({"quant_method": "bitsandbytes"}, ("'bitsandbytes'", "awq", "compressed-tensors")),
        ({"quant_method": "gptq", "bits": 8}, ("8-bit weights are not modelled",)),
        ({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"}, ("'MIXED_PRECISION'",)),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "int"}}},
            },
            ("8-bit int weights are not modelled",),
        ),
        ({"quant_method": "compressed-tensors"}, ("num_bits: missing",)),
    ],
)
def test_unknown_quantisation_is_refused_by_name(
    quantization: dict[str, Any], words: tuple[str, ...]
) -> None:
    message = refusal({**LLAMA, "quantization_config": quantization})
    assert all(word in message for word in words)


@pytest.mark.parametrize(
    ("exceptions", "expected"),
    [
        (["model.layers.*.self_attn", "lm_head"], True),
        (["re:.*self_attn.*"], True),
        ([f"model.layers.{i}.self_attn*" for i in range(4)], True),
        ([f"model.layers.{i}.self_attn.o_proj" for i in range(3)], True),
        (["model.layers.0.self_attn*"], False),  # one layer kept apart is no rule
        ([f"model.layers.{i}.self_attn.q_a_layernorm" for i in range(4)], False),
        ([f"model.layers.{i}.self_attn.indexer.k_norm" for i in range(4)], False),
        (["lm_head", "model.layers.0.mlp.gate"], False),
    ],
)
def test_whether_only_experts_are_quantised(exceptions: list[str], expected: bool) -> None:
    quantization = {"quant_method": "fp8", "modules_to_not_convert": exceptions}
    config = {**MOE, "quantization_config": quantization}
    assert model_from_config(config, "mine").quantized_experts_only is expected
    # Without experts the question does not arise.
    dense = {**LLAMA, "quantization_config": quantization}
    assert model_from_config(dense, "mine").quantized_experts_only is False


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        ({"torch_dtype": "float16"}, "fp16"),
        ({"torch_dtype": None, "dtype": "bfloat16"}, "bf16"),
        ({"torch_dtype": "float32"}, "bf16"),
        ({"torch_dtype": None}, "bf16"),
    ],
)
def test_plain_dtypes(dtype: dict[str, Any], expected: str) -> None:
    assert model_from_config({**LLAMA, **dtype}, "mine").weight_dtype == expected


def test_every_problem_is_reported_at_once_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(
        json.dumps(
            {
                **LLAMA,
                "hidden_size": "wide",
                "num_hidden_layers": 0,
                "attention_bias": "yes",
                "vocab_size": None,
                "quantization_config": {"quant_method": "magic"},
            },
            indent=1,
        )
    )
    with pytest.raises(InputError) as caught:
        catalog.model(str(path))
    problems = {problem.path: problem for problem in caught.value.problems}
    assert set(problems) == {
        "hidden_size",
        "num_hidden_layers",
        "attention_bias",
        "vocab_size",
        "quantization_config.quant_method",
    }
    assert all(problem.file == str(path) for problem in problems.values())
    lines = path.read_text().splitlines()
    assert '"hidden_size"' in lines[problems["hidden_size"].line - 1]
    assert '"quant_method"' in lines[problems["quantization_config.quant_method"].line - 1]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"num_key_value_heads": 3}, "3 does not divide 8 attention heads"),
        ({"num_attention_heads": 7, "num_key_value_heads": 7}, "512 is no multiple of 7 heads"),
        ({"hidden_size": 512.5}, "512.5 is not a whole number"),
        ({"hidden_size": True}, "True is not a whole number"),
        ({"torch_dtype": "int8"}, "unknown dtype 'int8'"),
        ({"quantization_config": []}, "is not a mapping"),
    ],
)
def test_impossible_shapes_are_refused(change: dict[str, Any], words: str) -> None:
    assert words in refusal({**LLAMA, **change})


def test_impossible_experts_are_refused() -> None:
    assert "17 of 16 experts" in refusal({**MOE, "num_experts_per_tok": 17})
    assert "0 MoE layers" in refusal({**MOE, "mlp_only_layers": [0, 1, 2, 3]})


def test_modelopts_separate_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    (tmp_path / "hf_quant_config.json").write_text(
        json.dumps({"quantization": {"quant_algo": "NVFP4", "exclude_modules": ["lm_head"]}})
    )
    assert catalog.model(str(tmp_path)).weight_dtype == "nvfp4"


@pytest.mark.parametrize(
    ("content", "words"),
    [("", "empty"), ("[1]", "holds no mapping"), ('{"a": 1,,}', "config.json:1:")],
)
def test_broken_files_are_refused(tmp_path: Path, content: str, words: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(content)
    with pytest.raises(InputError) as caught:
        catalog.model(str(path))
    assert words in str(caught.value)


def test_a_folder_without_a_config_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"config\.json: no such file"):
        catalog.model(str(tmp_path))


@pytest.mark.parametrize("name", ["mine.yaml", "mine.yml"])
def test_a_model_in_the_catalogues_own_form(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(catalog.catalog_text("models", "Qwen/Qwen3-8B"))
    assert catalog.model(str(path)) == catalog.model("Qwen/Qwen3-8B")


def tensors(config: dict[str, Any]) -> int:
    """Count a Llama's tensors one by one: an arithmetic apart from the product's."""
    h, width, heads = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    q, kv = config["num_attention_heads"] * heads, config["num_key_value_heads"] * heads
    layer = [(q, h), (kv, h), (kv, h), (h, q), (width, h), (width, h), (h, width), (h,), (h,)]
    if config["attention_bias"]:
        layer += [(q,), (kv,), (kv,), (h,)]
    if config["mlp_bias"]:
        layer += [(width,), (width,), (h,)]
    edges = [(config["vocab_size"], h), (h,)]
    if not config["tie_word_embeddings"]:
        edges.append((config["vocab_size"], h))
    total = 0
    for shape in [*layer * config["num_hidden_layers"], *edges]:
        size = 1
        for side in shape:
            size *= side
        total += size
    return total


@given(
    layers=st.integers(1, 100),
    groups=st.integers(1, 8),
    kv_heads=st.integers(1, 16),
    head_dim=st.sampled_from([64, 80, 128, 256]),
    hidden=st.integers(1, 20_000),
    width=st.integers(1, 60_000),
    vocab=st.integers(1, 300_000),
    flags=st.tuples(st.booleans(), st.booleans(), st.booleans()),
)
def test_any_llama_has_the_parameters_of_its_tensors(
    layers: int,
    groups: int,
    kv_heads: int,
    head_dim: int,
    hidden: int,
    width: int,
    vocab: int,
    flags: tuple[bool, bool, bool],
) -> None:
    config = {
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": hidden,
        "intermediate_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": kv_heads * groups,
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim,
        "vocab_size": vocab,
        "max_position_embeddings": 4096,
        "attention_bias": flags[0],
        "mlp_bias": flags[1],
        "tie_word_embeddings": flags[2],
    }
    counted = parameters(model_from_config(config, "any"))
    assert counted.total == tensors(config)
    assert counted.active == counted.total
    # Multiplying matrices: everything but embedding lookup, norms and biases, and the head once.
    assert counted.matmul_active == (counted.attention + counted.dense_mlp + vocab * hidden)
