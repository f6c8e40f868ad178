"""Models: derived parameter counts against published ones, look-up, a config of one's own."""

from __future__ import annotations

import gc
import importlib.util
import json
import sys
import warnings
from pathlib import Path
from types import ModuleType

import pytest

from planner.errors import InputError
from planner.perf.parameters import Parameters, parameters
from planner.spec import catalog
from planner.spec.model import Model

MODELS = catalog.models()
IDS = [model.id for model in MODELS]

WANTED = [
    "meta-llama/Llama-2-7b-hf",
    "meta-llama/Llama-2-13b-hf",
    "meta-llama/Llama-2-70b-hf",
    "meta-llama/Meta-Llama-3-8B",
    "meta-llama/Meta-Llama-3-70B",
    "meta-llama/Llama-3.1-8B",
    "meta-llama/Llama-3.1-8B-Instruct",
    "meta-llama/Llama-3.1-70B-Instruct",
    "meta-llama/Llama-3.1-405B-Instruct",
    "meta-llama/Llama-3.3-70B-Instruct",
    "meta-llama/Llama-4-Scout-17B-16E-Instruct",
    "meta-llama/Llama-4-Maverick-17B-128E-Instruct",
    "Qwen/Qwen2.5-7B-Instruct",
    "Qwen/Qwen2.5-14B-Instruct",
    "Qwen/Qwen2.5-32B-Instruct",
    "Qwen/Qwen2.5-72B-Instruct",
    "Qwen/Qwen3-8B",
    "Qwen/Qwen3-14B",
    "Qwen/Qwen3-32B",
    "Qwen/Qwen3-30B-A3B",
    "Qwen/Qwen3-235B-A22B",
    "mistralai/Mistral-7B-v0.1",
    "mistralai/Mistral-Small-24B-Instruct-2501",
    "mistralai/Mixtral-8x7B-v0.1",
    "mistralai/Mixtral-8x22B-v0.1",
    "google/gemma-2-9b-it",
    "google/gemma-2-27b-it",
    "google/gemma-3-12b-it",
    "google/gemma-3-27b-it",
    "microsoft/phi-4",
    "01-ai/Yi-34B",
    "facebook/opt-13b",
    "facebook/opt-66b",
    "deepseek-ai/DeepSeek-V2-Lite",
    "deepseek-ai/DeepSeek-V3",
    "deepseek-ai/DeepSeek-R1",
    "openai/gpt-oss-20b",
    "openai/gpt-oss-120b",
    "zai-org/GLM-4.5",
    "zai-org/GLM-4.5-Air",
    "zai-org/GLM-4.6",
    "tiiuae/falcon-180B",
    "nvidia/NVIDIA-Nemotron-Nano-9B-v2",
    "nvidia/NVIDIA-Nemotron-Nano-12B-v2",
    "Qwen/Qwen3.5-9B",
    "ibm-granite/granite-3.3-2b-instruct",
    "ibm-granite/granite-3.3-8b-instruct",
]


@pytest.mark.parametrize("name", WANTED)
def test_wanted_models_are_in_the_catalogue_under_their_own_id(name: str) -> None:
    assert catalog.model(name).id == name


def published_content(model: Model, counted: Parameters) -> int:
    """Return the derived count of what the published figure counts.

    Checkpoints may hold draft layers (alone or with their own embedding and head) and a tied head
    a second time; the catalogue says which.
    """
    published = catalog.catalog_file("models", model.id)["published"]
    total = counted.total
    if published.get("holds_tied_head_twice"):
        total += counted.embedding
    if published.get("holds_draft_layers"):
        total += counted.draft
    if published.get("holds_draft_layers") == "with_embedding_and_head":
        total += 2 * counted.embedding
    return total


@pytest.mark.parametrize("model", MODELS, ids=IDS)
def test_derived_parameters_equal_the_published_count(model: Model) -> None:
    published = catalog.catalog_file("models", model.id)["published"]
    # 0.5 % as promised; a rounded figure says nothing beyond half a unit of its last digit, which
    # for "13B" is 3.8 %. Everything else agrees far closer, see the next test.
    tolerance = max(0.005 * published["parameters"], published.get("rounded_to", 0) / 2)
    found = published_content(model, parameters(model))
    assert abs(found - published["parameters"]) <= tolerance


def test_exact_counts_agree_to_a_hundredth_of_a_percent() -> None:
    """Counts read from checkpoints are exact, so shapes must reproduce them.

    What is left is not architecture: rotary buffers (Llama 2), FP8 scales (DeepSeek), a draft
    layer's correction vector (GLM) and norms (Qwen 3.5).
    """
    exact = 0
    for model in MODELS:
        published = catalog.catalog_file("models", model.id)["published"]
        if "rounded_to" in published:
            continue
        found = published_content(model, parameters(model))
        assert found == pytest.approx(published["parameters"], rel=1e-4), model.id
        exact += found == published["parameters"]
    assert exact >= 35


def test_well_known_counts_to_the_last_digit() -> None:
    known = {
        "meta-llama/Llama-3.1-8B": 8_030_261_248,
        "meta-llama/Llama-3.1-70B": 70_553_706_496,
        "meta-llama/Llama-3.1-405B": 405_853_388_800,
        "Qwen/Qwen3-235B-A22B": 235_093_634_560,
        "openai/gpt-oss-120b": 116_829_156_672,
        "google/gemma-3-27b-it": 27_432_406_640,
        "meta-llama/Llama-4-Scout-17B-16E-Instruct": 108_641_793_536,
    }
    assert {name: parameters(catalog.model(name)).total for name in known} == known


@pytest.mark.parametrize(
    "model", [m for m in MODELS if m.published_active_parameters], ids=lambda m: m.id
)
def test_active_parameters_bracket_the_published_figure(model: Model) -> None:
    """Authors count with or without embedding and head, and round to one or two digits.

    So the figure must lie between the body alone and everything, widened by a rounding of 7 % (the
    coarsest here is "3B" of Qwen3-Next, whose body alone has 3.25B).
    """
    counted = parameters(model)
    assert model.published_active_parameters is not None
    low = 0.93 * counted.matmul_active_body
    if model.id.startswith(("Qwen/Qwen3-Next", "Qwen/Qwen3.5-35B")):
        low = 0.5 * counted.matmul_active_body + 0.5 * 2.5e9  # "3B" stands for 2.5 to 3.5
    assert low <= model.published_active_parameters <= 1.07 * counted.active


def test_gpt_oss_active_parameters_as_its_card_counts_them() -> None:
    # The card leaves the embedding out: 3.61B and 5.13B, to two decimals.
    for name, billions in (("openai/gpt-oss-20b", 3.61), ("openai/gpt-oss-120b", 5.13)):
        counted = parameters(catalog.model(name))
        assert (counted.active - counted.embedding) / 1e9 == pytest.approx(billions, abs=0.005)


def test_sister_repositories_keep_their_own_id_because_it_is_launched() -> None:
    sister = catalog.model("meta-llama/Llama-3.3-70B-Instruct")
    assert sister.id == "meta-llama/Llama-3.3-70B-Instruct"
    assert parameters(sister) == parameters(catalog.model("meta-llama/Llama-3.1-70B-Instruct"))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-8B-Instruct"),
        ("llama-3.1-8b", "meta-llama/Llama-3.1-8B"),
        ("META-LLAMA/llama-3.1-8b-instruct", "meta-llama/Llama-3.1-8B-Instruct"),
        ("gpt-oss-120b", "openai/gpt-oss-120b"),
    ],
)
def test_short_names_and_case(name: str, expected: str) -> None:
    assert catalog.model(name).id == expected


def test_unknown_model_names_the_nearest_and_offers_a_path() -> None:
    with pytest.raises(InputError) as caught:
        catalog.model("meta-llama/Llama-3.1-7B-Instruct")
    assert "meta-llama/Llama-3.1-8B-Instruct" in str(caught.value)
    assert "config.json" in str(caught.value)


@pytest.mark.parametrize("model", MODELS, ids=IDS)
def test_a_catalogue_config_read_from_a_file_gives_the_same_model(
    model: Model, tmp_path: Path
) -> None:
    config = catalog.catalog_file("models", model.id)["config"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    for path in (tmp_path, tmp_path / "config.json"):
        local = catalog.model(str(path))
        assert local.id == str(tmp_path)
        assert parameters(local) == parameters(model)
        assert local.weight_dtype == model.weight_dtype
        assert local.architecture == model.architecture
        assert local.published_parameters == 0


@pytest.mark.parametrize("model", MODELS, ids=IDS)
def test_shapes_are_possible(model: Model) -> None:
    assert model.num_attention_heads % model.num_kv_heads == 0
    assert 0 <= model.sliding_layers <= model.num_layers
    assert (model.sliding_window > 0) == (model.sliding_layers > 0)
    assert model.dense_mlp_layers >= 0
    if model.architecture != "NemotronHForCausalLM":  # some of its mixers have no MLP at all
        assert (model.intermediate_size > 0) == (model.dense_mlp_layers > 0)
    assert bool(model.extra_parameters) == bool(model.extra_parameters_note)


def test_attention_kinds_of_known_models() -> None:
    windows = {
        "openai/gpt-oss-120b": (18, 128),
        "google/gemma-2-27b-it": (23, 4096),
        "google/gemma-3-27b-it": (52, 1024),
        "mistralai/Mistral-7B-v0.1": (32, 4096),
        "mistralai/Mistral-7B-Instruct-v0.3": (0, 0),
        "meta-llama/Llama-4-Scout-17B-16E-Instruct": (36, 8192),
        "Qwen/Qwen2.5-7B-Instruct": (0, 0),
    }
    found = {name: catalog.model(name) for name in windows}
    assert {k: (m.sliding_layers, m.sliding_window) for k, m in found.items()} == windows
    deepseek = catalog.model("deepseek-ai/DeepSeek-V3")
    assert deepseek.mla is not None
    assert (deepseek.mla.kv_lora_rank + deepseek.mla.qk_rope_head_dim) == 576
    assert catalog.model("Qwen/Qwen3-Next-80B-A3B-Instruct").attention_layers == 12
    sparse = catalog.model("deepseek-ai/DeepSeek-V3.2").sparse_attention
    assert sparse is not None
    assert sparse.top_k_tokens == 2048


@pytest.mark.parametrize(
    ("name", "dtype", "experts_only"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", "bf16", False),
        ("meta-llama/Llama-2-7b-hf", "fp16", False),
        ("deepseek-ai/DeepSeek-V3", "fp8_block", False),
        ("Qwen/Qwen3-235B-A22B-FP8", "fp8_block", False),
        ("openai/gpt-oss-20b", "mxfp4", True),
        ("MiniMaxAI/MiniMax-M2.7", "fp8_block", False),
    ],
)
def test_published_dtypes(name: str, dtype: str, experts_only: bool) -> None:
    model = catalog.model(name)
    assert (model.weight_dtype, model.quantized_experts_only) == (dtype, experts_only)


@pytest.fixture(scope="module")
def prototype(shared: Path) -> ModuleType:
    """Shapes typed in by somebody else."""
    path = shared / "reference" / "step_model_prototype.py"
    if not path.is_file():
        pytest.skip("needs reference/step_model_prototype.py")
    spec = importlib.util.spec_from_file_location("step_model_prototype", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look themselves up
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # it leaves a file to the collector
        spec.loader.exec_module(module)
        gc.collect()
    return module


@pytest.mark.parametrize(
    ("name", "theirs"),
    [
        ("Llama-3.1-8B", "Llama-3.1-8B"),
        ("Llama-3.1-70B", "Llama-3.1-70B"),
        ("Llama-3.1-405B", "Llama-3.1-405B"),
        ("Llama-2-7b-hf", "Llama-2-7B"),
        ("Llama-2-70b-hf", "Llama-2-70B"),
        ("Mistral-7B-v0.1", "Mistral-7B"),
        ("Mixtral-8x7B-v0.1", "Mixtral-8x7B"),
        ("Qwen3-8B", "Qwen3-8B"),
        ("Qwen3-14B", "Qwen3-14B"),
        ("Qwen3-32B", "Qwen3-32B"),
        ("Qwen3-30B-A3B", "Qwen3-30B-A3B"),
        ("Qwen3-235B-A22B", "Qwen3-235B"),
        ("Qwen3-Coder-480B-A35B-Instruct", "Qwen3-Coder-480B"),
        ("Qwen3-Next-80B-A3B-Instruct", "Qwen3-Next"),
        ("Qwen3.5-397B-A17B", "Qwen3.5-397B"),
        ("gpt-oss-120b", "gpt-oss-120b"),
        ("gpt-oss-20b", "gpt-oss-20b"),
        ("DeepSeek-V3", "DeepSeek-V3"),
        ("Kimi-K2-Instruct", "Kimi-K2"),
        ("GLM-5", "GLM-5"),
        ("GLM-4.5-Air", "GLM-4.5-Air"),
        ("GLM-4.6", "GLM-4.6"),
        ("MiniMax-M2.5", "MiniMax-M2"),
        ("Llama-4-Scout-17B-16E-Instruct", "Llama-4-Scout"),
        ("Llama-4-Maverick-17B-128E-Instruct", "Llama-4-Maverick"),
    ],
)
def test_shapes_agree_with_an_independent_table(
    prototype: ModuleType, name: str, theirs: str
) -> None:
    model, other = catalog.model(name), prototype.M[theirs]
    counted = parameters(model)
    body, experts, edges = other.params()
    assert counted.embedding + counted.lm_head == edges
    assert counted.routed_experts == experts + expert_biases(model)
    ours = counted.attention + counted.linear_attention + counted.dense_mlp + counted.shared_experts
    assert ours == body + left_out(model)


def expert_biases(model: Model) -> int:
    """Return what the table leaves out of gpt-oss' experts."""
    moe = model.moe
    if moe is None or not moe.expert_bias:
        return 0
    return moe.layers * moe.num_experts * (2 * moe.expert_intermediate_size + model.hidden_size)


def left_out(model: Model) -> int:
    """Return what the table leaves out of attention: gates, indexers, the smallest projections."""
    h, linear, sparse, mla = (
        model.hidden_size,
        model.linear_attention,
        model.sparse_attention,
        model.mla,
    )
    missing = 0
    if model.attn_output_gate:
        missing += model.attention_layers * h * model.num_attention_heads * model.head_dim
    if linear:
        heads, keys = linear.value_heads, linear.key_heads * linear.key_head_dim
        convolution = (2 * keys + heads * linear.value_head_dim) * linear.conv_kernel
        small = 2 * heads * h + convolution + 2 * heads + linear.value_head_dim
        missing += linear.layers * small
    if sparse and mla:
        dim = sparse.index_head_dim
        indexer = mla.q_lora_rank * sparse.index_heads * dim + h * (dim + sparse.index_heads)
        missing += model.num_layers * (indexer + 2 * dim)
    return missing
