"""What the compiled step cost must obey, and its terms against independent arithmetic."""

from dataclasses import replace

import numpy as np
import perf_cases as cases
import pytest

from planner.perf.calibrations import calibration, ring_all_reduce
from planner.perf.chunk import largest_chunk_within, smallest_chunk_within
from planner.perf.compile import compile_step_cost, token_grid
from planner.perf.formats import arithmetic
from planner.perf.layers import dense_gemms
from planner.perf.operators import distinct_experts, smooth_max
from planner.perf.parameters import parameters
from planner.perf.step_cost import mixed_step_s
from planner.spec import catalog
from planner.spec.model import SparseAttention

BARE = replace(
    cases.VLLM,
    layer_overhead_s=0.0,
    seq_overhead_s=0.0,
    prefill_layer_overhead_s=0.0,
)


def cost(model, gpu=cases.H100, engine=BARE, fit=None, **changes):
    deployment = cases.deployment(model, gpu, **changes)
    return compile_step_cost(model, gpu, engine, fit or calibration(gpu), deployment)


def step(model, decodes, context=1000, chunk=0, **changes):
    return float(
        mixed_step_s(
            cost(model, **changes),
            decode_seqs=decodes,
            context_tokens=context,
            chunk_tokens=chunk,
            finishing=1 if chunk else 0,
        )
    )


def plain(fit):
    """Efficiencies of 1 and nothing fixed, but summed operator by operator."""
    return replace(
        fit,
        gemm={
            key: replace(value, compute=1.0, memory=1.0, fixed_s=0.0, per_input_s=0.0)
            for key, value in fit.gemm.items()
        },
        attention={
            key: replace(
                value,
                decode_memory=1.0,
                decode_fixed_s=0.0,
                prefill_compute=1.0,
                prefill_fixed_s=0.0,
                prefill_extra_tokens=0.0,
            )
            for key, value in fit.attention.items()
        },
    )


def test_one_decode_reads_every_matrix_once():
    """At efficiency 1 a single decode costs the bytes of the matrices plus small activations."""
    counts = parameters(cases.LLAMA_8B)
    matrices = counts.total - counts.embedding - counts.norms  # the lookup reads one row
    floor = 2 * matrices / 3.35e12
    got = step(cases.LLAMA_8B, 1, context=1, fit=plain(calibration(cases.H100)))
    assert floor < got < 1.02 * floor


def test_dense_gemms_hold_every_matrix_of_the_model():
    for model in (cases.LLAMA_8B, cases.LLAMA_70B, cases.DEEPSEEK_V3):
        counts = parameters(model)
        held = sum(g.parameters for g in dense_gemms(model, cases.deployment(model, cases.H100)))
        want = counts.attention + counts.dense_mlp + counts.shared_experts + counts.router
        assert held == want


@pytest.mark.parametrize("name", [m.id for m in catalog.models()])
def test_every_catalogue_model_compiles_and_grows(name):
    model = catalog.model(name)
    at = {"tensor_parallel_size": 4, "weight_dtype": model.weight_dtype}
    compiled = cost(model, engine=catalog.engine("vllm"), **at)
    times = [
        float(mixed_step_s(compiled, decode_seqs=d, context_tokens=s, chunk_tokens=c))
        for d, s, c in [(1, 100, 0), (8, 100, 0), (8, 8000, 0), (8, 8000, 512), (8, 8000, 4096)]
    ]
    assert all(np.isfinite(times))
    assert times == sorted(times)
    assert 1e-4 < times[0] < 0.5
    held = sum(g.parameters for g in dense_gemms(model, cases.deployment(model, cases.H100)))
    counts = parameters(model)
    matrices = counts.matmul_active_body - counts.active_routed_experts
    # Convolutions and decay projections of linear attention are not GEMMs of their own here.
    assert held == pytest.approx(matrices, rel=0.02)


def test_more_gpus_shorten_a_step_and_add_collectives():
    one, four = (step(cases.LLAMA_8B, 64, tensor_parallel_size=tp) for tp in (1, 4))
    assert one / 4 < four < one


def test_gpus_without_a_fast_link_pay_for_collectives():
    linked = ring_all_reduce(cases.H100, calibration(cases.H100).ring or _rings())
    bare = ring_all_reduce(cases.NO_LINK, _rings())
    assert bare[4].bandwidth_bytes_per_s < 0.2 * linked[4].bandwidth_bytes_per_s
    assert bare[4].latency_s > linked[4].latency_s
    fast, slow = (
        float(
            mixed_step_s(
                compile_step_cost(
                    cases.LLAMA_70B,
                    gpu,
                    BARE,
                    calibration(gpu),
                    cases.deployment(cases.LLAMA_70B, gpu, tensor_parallel_size=4),
                ),
                decode_seqs=32,
                context_tokens=1000,
                chunk_tokens=2000,
            )
        )
        for gpu in (replace(cases.H100, calibration=""), cases.NO_LINK)
    )
    assert slow > 1.5 * fast


def _rings():
    from planner.perf import calibrations

    return calibrations._load("generic").ring


def test_a_bridge_reaches_two_gpus_only():
    pair = replace(cases.NO_LINK, scaleup_bytes_per_s=300e9, scaleup_domain_gpus=2)
    times = ring_all_reduce(pair, _rings())
    assert times[2].bandwidth_bytes_per_s > 100e9
    assert times[4].bandwidth_bytes_per_s < 50e9


def test_fp8_halves_weights_and_doubles_flops_where_hardware_allows():
    hopper, ampere = arithmetic(cases.H100, "fp8"), arithmetic(cases.A100, "fp8")
    assert (hopper.weight_bytes, hopper.peak_flops_per_s) == (1.0, 1978.9e12)
    assert (ampere.weight_bytes, ampere.peak_flops_per_s) == (1.0, 312e12)
    assert ampere.weight_only
    assert not hopper.weight_only


@pytest.mark.parametrize("dtype", ["int4", "mxfp4", "nvfp4"])
def test_four_bit_weights_gain_no_flops_on_hopper(dtype):
    maths = arithmetic(cases.H100, dtype)
    assert maths.peak_flops_per_s == 989.4e12
    assert maths.weight_only
    assert 0.5 < maths.weight_bytes < 0.57


def test_int4_saves_the_decode_but_not_the_prefill():
    decode = step(cases.LLAMA_8B, 1, weight_dtype="int4") / step(cases.LLAMA_8B, 1)
    prefill = step(cases.LLAMA_8B, 0, chunk=8000, weight_dtype="int4") / step(
        cases.LLAMA_8B, 0, chunk=8000
    )
    assert decode < 0.5
    assert prefill == pytest.approx(1.0, abs=0.03)


def test_fp8_kv_halves_the_kv_read():
    wide, narrow = cost(cases.LLAMA_8B), cost(cases.LLAMA_8B, kv_cache_dtype="fp8")
    memory = calibration(cases.H100).attention
    want = 0.5 * memory["bf16"].decode_memory / memory["fp8"].decode_memory
    assert narrow.kv_s[0] / wide.kv_s[0] == pytest.approx(want)


def test_kv_read_by_hand():
    fit = calibration(cases.H100).attention["bf16"]
    got = cost(cases.LLAMA_70B, tensor_parallel_size=4).kv_s[0]
    assert got == pytest.approx(327_680 / 4 / (3.35e12 * fit.decode_memory))


def test_attention_is_quadratic_in_the_prompt():
    compiled = cost(cases.LLAMA_8B, max_num_batched_tokens=32_768)
    short, long = (
        float(mixed_step_s(compiled, decode_seqs=0, context_tokens=0, chunk_tokens=n))
        for n in (8192, 32_768)
    )
    linear = float(compiled.memory_s[32_768] / compiled.memory_s[8192])
    assert long / short > 1.05 * linear
    fit = calibration(cases.H100).attention["bf16"]
    want = 32 * 4 * 32 * 128 / (989.4e12 * fit.prefill_compute)
    assert compiled.pair_s[0] == pytest.approx(want)


def test_chunks_pay_for_reading_their_prefix():
    compiled = cost(cases.LLAMA_8B)
    fresh, late = (
        float(
            mixed_step_s(
                compiled, decode_seqs=0, context_tokens=0, chunk_tokens=512, past_tokens=past
            )
        )
        for past in (0, 16_384)
    )
    read = 16_384 * compiled.prefix_s
    pairs = 512 * 16_384 * compiled.pair_s[0]
    assert late - fresh == pytest.approx(read + pairs)


def test_window_layers_read_at_most_the_window():
    compiled = cost(cases.GEMMA_LIKE)
    assert compiled.window_tokens.tolist() == [0, 1024]
    near, far = (
        float(mixed_step_s(compiled, decode_seqs=16, context_tokens=s)) for s in (2048, 4096)
    )
    assert far - near == pytest.approx(16 * 2048 * compiled.kv_s[0])  # only full layers grow


def test_sparse_attention_reads_its_index_and_the_best_tokens():
    sparse = SparseAttention(index_heads=64, index_head_dim=128, top_k_tokens=2048)
    model = replace(cases.DEEPSEEK_V3, sparse_attention=sparse)
    at = {"tensor_parallel_size": 8, "weight_dtype": "fp8_block"}
    dense, thin = cost(cases.DEEPSEEK_V3, **at), cost(model, **at)
    times = {
        (name, context): float(mixed_step_s(c, decode_seqs=64, context_tokens=context))
        for name, c in (("dense", dense), ("thin", thin))
        for context in (4096, 65_536)
    }
    growth = {n: times[n, 65_536] - times[n, 4096] for n in ("dense", "thin")}
    assert growth["thin"] < 0.5 * growth["dense"]


def test_experts_touched():
    assert float(distinct_experts(8, 2, 4)) == pytest.approx(8 * (1 - 0.75**4))
    assert float(distinct_experts(256, 8, 128)) == pytest.approx(251.6, abs=0.1)
    assert float(distinct_experts(128, 8, 1, skew=0.8)) == 8
    assert float(distinct_experts(128, 8, 0)) == 0
    tokens = np.arange(1, 5000)
    touched = distinct_experts(256, 8, tokens, 0.8)
    assert (np.diff(touched) >= 0).all()
    assert touched[-1] <= 256


def test_a_sparse_model_reads_few_experts_at_low_batch():
    at = {"tensor_parallel_size": 8, "weight_dtype": "fp8_block"}
    one, many = (step(cases.DEEPSEEK_V3, d, context=100, **at) for d in (1, 256))
    assert many > 2 * one  # nearly every expert is read


def test_expert_parallelism_waits_for_the_fullest_rank():
    at = {"tensor_parallel_size": 8, "weight_dtype": "fp8_block"}
    tensor = cost(cases.DEEPSEEK_V3, **at)
    expert = cost(cases.DEEPSEEK_V3, expert_parallel=True, **at)
    assert expert.memory_s[4096] > tensor.memory_s[4096]
    assert expert.memory_s[4096] < 1.2 * tensor.memory_s[4096]


def test_head_runs_on_sampled_rows_only():
    compiled = cost(cases.LLAMA_8B)
    assert compiled.row_s[0] == 0
    assert compiled.row_s[1] > 2 * 4096 * 128_256 / 3.35e12  # reading the head's matrix
    assert compiled.row_s[256] < 2 * compiled.row_s[1]


def test_speculation_scores_more_tokens_per_sequence():
    drafting = cost(cases.LLAMA_8B, num_speculative_tokens=4)
    assert drafting.tokens_per_decode == 5
    assert drafting.row_s[100] > cost(cases.LLAMA_8B).row_s[100]


def test_each_draft_reads_one_layer_and_the_head():
    """218 M parameters of a Llama-3.1-8B layer and 525 M of its head; kernels reach 80 to 95 %."""
    without, drafting = cost(cases.LLAMA_8B), cost(cases.LLAMA_8B, num_speculative_tokens=4)
    read_s = 4 * 2 * (218_112_000 + 4096 * 128_256) / 3.35e12
    assert read_s < drafting.row_s[1] - without.row_s[1] < 1.3 * read_s
    assert drafting.kv_s[0] == pytest.approx(without.kv_s[0] * (1 + 4 / 32))
    assert drafting.row_s[0] == 0.0
    assert (drafting.memory_s == without.memory_s).all()


def test_old_gpus_compute_in_fp16():
    turing = replace(cases.NO_LINK, id="t4", peak_flops_per_s={"fp16": 65e12, "int8": 130e12})
    assert arithmetic(turing, "bf16").peak_flops_per_s == 65e12
    compiled = compile_step_cost(
        cases.LLAMA_8B, turing, BARE, calibration(turing), cases.deployment(cases.LLAMA_8B, turing)
    )
    assert np.isfinite(compiled.memory_s).all()


def test_grid_interpolation_is_invisible():
    """Between grid points the table stays within a thousandth of the operators themselves."""
    grid = token_grid(8192)
    assert grid[0] == 0
    assert grid[-1] == 8192
    assert len(grid) < 400
    fine = np.arange(257, 8192, 37, dtype=float)
    curve = 1e-3 * smooth_max(fine / 1000, 0.7, 3.0)
    on_grid = 1e-3 * smooth_max(grid / 1000, 0.7, 3.0)
    assert np.max(np.abs(np.interp(fine, grid, on_grid) / curve - 1)) < 1e-3


def test_every_gpu_gets_a_calibration():
    for gpu in catalog.gpus():
        fit = calibration(gpu)
        assert fit.band > 0
        assert {"bf16", "fp8"} <= set(fit.attention)
        assert {2, 4, 8} <= set(fit.all_reduce)
        if not gpu.calibration:
            assert fit.evidence == "generic"


def test_generic_bands_are_wider_and_widest_on_other_vendors():
    measured = calibration(catalog.gpu("h100")).band
    inherited = calibration(catalog.gpu("l4")).band
    foreign = calibration(catalog.gpu("mi300x")).band
    assert measured < inherited < foreign


def test_other_vendors_run_fp8_and_launches_slower():
    amd, native = catalog.gpu("mi300x"), catalog.gpu("l4")
    theirs, ours = calibration(amd), calibration(native)
    assert theirs.gemm["fp8"].compute < 0.7 * ours.gemm["fp8"].compute
    assert theirs.gemm["bf16"].compute == ours.gemm["bf16"].compute
    assert theirs.gemm["bf16"].fixed_s > 1.5 * ours.gemm["bf16"].fixed_s


def test_largest_chunk_is_the_largest():
    compiled = cost(cases.LLAMA_8B, engine=cases.VLLM)
    chunk = largest_chunk_within(compiled, 0.05, 32, 2048)

    def at(tokens):
        return float(
            mixed_step_s(
                compiled,
                decode_seqs=32,
                context_tokens=2048,
                chunk_tokens=tokens,
                finishing=1,
            )
        )

    assert at(chunk) <= 0.05 < at(chunk + 1)
    assert largest_chunk_within(compiled, 0.001, 32, 2048) is None
    assert largest_chunk_within(compiled, 100.0, 32, 2048) == 8192 - 32


def test_smallest_chunk_meets_the_ttft():
    compiled = cost(cases.LLAMA_8B, engine=cases.VLLM)
    chunk = smallest_chunk_within(compiled, 0.5, 8000, 32, 2048)
    assert chunk is not None
    steps = -(-8000 // chunk)
    time = float(
        mixed_step_s(
            compiled,
            decode_seqs=32,
            context_tokens=2048,
            chunk_tokens=chunk,
            past_tokens=(8000 - chunk) / 2,
            finishing=1,
        )
    )
    assert steps * time <= 0.5
    assert smallest_chunk_within(compiled, 0.01, 8000, 32, 2048) is None
