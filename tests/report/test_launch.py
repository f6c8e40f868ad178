"""The command starts exactly the deployment: read back by a parser written from the docs."""

from __future__ import annotations

import argparse
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import InputError
from planner.spec.catalog import engines, model
from planner.spec.deployment import Deployment
from planner.spec.launch import launch_argv

LLAMA = model("meta-llama/Llama-3.1-8B-Instruct")
ENGINES = {f"{each.id}-{each.version}": each for each in engines()}


def vllm_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(exit_on_error=False, allow_abbrev=False)
    parser.add_argument("words", nargs="+")
    boolean = argparse.BooleanOptionalAction
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--quantization", default=None)
    parser.add_argument("--kv-cache-dtype", default="auto")
    parser.add_argument("--tensor-parallel-size", type=int)
    parser.add_argument("--pipeline-parallel-size", type=int)
    parser.add_argument("--data-parallel-size", type=int)
    parser.add_argument("--enable-expert-parallel", action=boolean, default=False)
    parser.add_argument("--max-num-batched-tokens", type=int)
    parser.add_argument("--max-num-seqs", type=int)
    parser.add_argument("--max-model-len", type=int)
    parser.add_argument("--gpu-memory-utilization", type=float)
    parser.add_argument("--block-size", type=int)
    parser.add_argument("--enable-prefix-caching", action=boolean)
    parser.add_argument("--async-scheduling", action=boolean)
    return parser


def sglang_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(exit_on_error=False, allow_abbrev=False)
    parser.add_argument("words", nargs="*")
    parser.add_argument("-m")
    parser.add_argument("--model-path")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--quantization", default=None)
    parser.add_argument("--kv-cache-dtype", default="auto")
    names = {
        "tp-size": "tensor_parallel_size",
        "pp-size": "pipeline_parallel_size",
        "dp-size": "data_parallel_size",
        "chunked-prefill-size": "max_num_batched_tokens",
        "max-running-requests": "max_num_seqs",
        "context-length": "max_model_len",
        "page-size": "block_size",
    }
    for flag, name in names.items():
        parser.add_argument(f"--{flag}", dest=name, type=int)
    parser.add_argument("--mem-fraction-static", dest="gpu_memory_utilization", type=float)
    store = "store_false"
    parser.add_argument("--disable-radix-cache", dest="enable_prefix_caching", action=store)
    parser.add_argument("--disable-overlap-schedule", dest="async_scheduling", action=store)
    return parser


PARSERS = {"vllm": vllm_parser, "sglang": sglang_parser}
DTYPES = {"bfloat16": "bf16", "float16": "fp16"}


def parsed(argv, engine) -> dict[str, object]:
    """The deployment's fields as the engine would read them."""
    values = vars(PARSERS[engine.id]().parse_args(list(argv)))
    values["expert_parallel"] = values.pop("enable_expert_parallel", False)
    values["weight_dtype"] = values["quantization"] or DTYPES[values["dtype"]]
    return values


@st.composite
def deployments(draw, engine):
    sizes = st.sampled_from([1, 2, 4, 8])
    return Deployment(
        gpu="h100-sxm",
        model=LLAMA.id,
        engine=engine.id,
        engine_version=engine.version,
        weight_dtype=draw(st.sampled_from(["bf16", "fp16", "fp8"])),
        kv_cache_dtype=draw(st.sampled_from(["bf16", "fp8"])),
        tensor_parallel_size=draw(sizes),
        pipeline_parallel_size=draw(sizes),
        data_parallel_size=draw(sizes),
        expert_parallel=draw(st.booleans()) and "expert_parallel" in engine.flags,
        max_num_batched_tokens=draw(st.integers(1, 65_536)),
        max_num_seqs=draw(st.integers(1, 4096)),
        max_model_len=draw(st.integers(1, 10**7)),
        gpu_memory_utilization=draw(st.integers(1, 100)) / 100,
        block_size=draw(st.sampled_from([1, 16, 64, 128])),
        enable_prefix_caching=draw(st.booleans()),
        async_scheduling=draw(st.booleans()),
    )


@pytest.mark.parametrize("name", sorted(ENGINES))
@given(data=st.data())
def test_the_command_says_every_field_and_nothing_else(name, data):
    engine = ENGINES[name]
    deployment = data.draw(deployments(engine))
    argv = launch_argv(deployment, engine, LLAMA)
    values = parsed(argv, engine)
    for field in engine.flags:
        if field == "kv_cache_dtype":
            eight_bit = deployment.kv_cache_dtype == "fp8"
            assert str(values[field]).startswith("fp8" if eight_bit else "auto")
        elif field != "num_speculative_tokens":
            assert values[field] == getattr(deployment, field), field
    flags = [word for word in argv if word.startswith("--")]
    known = {*engine.flags.values(), "--model-path", "--quantization"}
    assert {flag.replace("--no-", "--") for flag in flags} <= known
    assert len(flags) == len(set(flags))


@pytest.mark.parametrize("name", sorted(ENGINES))
def test_the_command_begins_with_the_engine_and_the_model(name):
    engine = ENGINES[name]
    argv = " ".join(launch_argv(some(engine), engine, LLAMA))
    assert argv.startswith(f"{engine.launch_command} {LLAMA.id} ")


def some(engine, **changes) -> Deployment:
    deployment = Deployment(
        gpu="h100-sxm",
        model=LLAMA.id,
        engine=engine.id,
        engine_version=engine.version,
        max_num_batched_tokens=1536,
        max_num_seqs=256,
        max_model_len=8192,
        gpu_memory_utilization=0.92,
    )
    return replace(deployment, **changes)


def test_the_example_in_full():
    engine = ENGINES["vllm-0.33"]
    assert launch_argv(some(engine), engine, LLAMA) == (
        *("vllm", "serve", "meta-llama/Llama-3.1-8B-Instruct"),
        *("--dtype", "bfloat16", "--kv-cache-dtype", "auto"),
        *("--tensor-parallel-size", "1", "--pipeline-parallel-size", "1"),
        *("--data-parallel-size", "1", "--max-num-batched-tokens", "1536"),
        *("--max-num-seqs", "256", "--max-model-len", "8192"),
        *("--gpu-memory-utilization", "0.92", "--block-size", "16"),
        *("--enable-prefix-caching", "--async-scheduling"),
    )


def test_a_checkpoint_published_quantised_needs_no_flag_for_it():
    engine = ENGINES["vllm-0.33"]
    published = replace(LLAMA, weight_dtype="fp8_block")
    argv = launch_argv(some(engine, weight_dtype="fp8_block"), engine, published)
    assert "--quantization" not in argv
    assert "--dtype" not in argv


@pytest.mark.parametrize(
    ("published", "wanted"),
    [("bf16", "int4"), ("int4", "bf16"), ("mxfp4", "fp8"), ("fp8_block", "int4")],
)
def test_weights_nobody_can_make_at_load_time_are_refused_with_a_hint(published, wanted):
    engine = ENGINES["vllm-0.33"]
    with pytest.raises(InputError, match=f"name a checkpoint that is published as {wanted}"):
        launch_argv(
            some(engine, weight_dtype=wanted), engine, replace(LLAMA, weight_dtype=published)
        )


def test_an_engine_is_not_told_what_it_has_no_flag_for():
    engine = ENGINES["vllm-0.33"]
    mute = replace(engine, flags={"max_num_seqs": "--max-num-seqs"})
    argv = launch_argv(some(engine), mute, LLAMA)
    assert argv == ("vllm", "serve", LLAMA.id, "--max-num-seqs", "256")
