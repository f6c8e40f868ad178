"""`planner simulate` from the command line."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

from planner.cli.simulate import command
from planner.errors import InfeasibleError, InputError

SLO = """
model: {model}
{more}
slo:
  ttft_s: {{p50: 0.5, p99: 2.0}}
  tpot_s: {{p99: 0.05}}
"""


@pytest.fixture
def run(tmp_path):
    rng = np.random.default_rng(0)
    n = 1500
    pl.DataFrame(
        {
            "arrival_s": np.cumsum(rng.exponential(0.2, n)).round(6),
            "input_tokens": rng.integers(10, 3000, n),
            "output_tokens": rng.integers(2, 300, n),
        }
    ).write_csv(tmp_path / "trace.csv")

    def call(*arguments, model="meta-llama/Llama-3.1-8B-Instruct", more="", only=False):
        slo = tmp_path / "slo.yaml"
        slo.write_text(SLO.format(model=model, more=more))
        words = ["--gpu", "h100", "--slo", str(slo)]
        if not only:
            words += ["--trace", str(tmp_path / "trace.csv")]
        return CliRunner().invoke(command, [*words, *map(str, arguments)], catch_exceptions=False)

    return call


def test_json_holds_the_replay_and_every_class(run):
    result = run("--json", "--replicas", 2)
    assert result.exit_code == 0
    data = json.loads(result.stdout)
    replay = data["replay"]
    assert {"requests", "events", "wall_s", "requests_per_s", "preemptions", "rejected"} <= set(
        replay
    )
    assert replay["requests"] == 1500
    assert replay["requests_per_s"] == pytest.approx(1500 / replay["wall_s"])
    (only,) = data["classes"]
    assert only["requests"] == only["ttft_s"]["count"] == 1500
    assert 0 < only["ttft_s"]["p50"] <= only["ttft_s"]["p90"] <= only["ttft_s"]["p99"]
    assert [t["metric"] for t in data["targets"]] == ["ttft_s", "ttft_s", "tpot_s"]
    assert all(t["holds"] for t in data["targets"])
    assert data["deployment"]["max_num_batched_tokens"] == 8192
    assert "replaying 1,500 requests" in result.stderr


def test_the_same_command_gives_the_same_figures(run):
    def figures(*arguments):
        data = json.loads(run("--json", *arguments).stdout)
        del data["replay"]["wall_s"], data["replay"]["requests_per_s"]
        return data

    assert figures("--replicas", 3) == figures("--replicas", 3)
    assert figures("--replicas", 3) != figures("--replicas", 3, "--seed", 7)


@pytest.mark.parametrize("typed", [("--kv-link-bytes-per-s", 50e9), ("--layerwise-transfer",)])
def test_a_link_without_pools_is_refused(run, typed):
    with pytest.raises(InputError, match="no link between pools"):
        run(*typed)


@pytest.mark.parametrize("seed", [-1, 2**32, 10**20])
def test_a_seed_is_one_that_slo_yaml_takes(run, seed):
    done = run("--seed", seed)
    assert done.exit_code == 2
    assert "0<=x<=4294967295" in done.output


def test_a_smaller_budget_is_what_was_simulated(run):
    data = json.loads(run("--json", "--max-num-batched-tokens", 512, "--max-num-seqs", 64).stdout)
    assert data["deployment"]["max_num_batched_tokens"] == 512
    assert data["deployment"]["max_num_seqs"] == 64
    default = json.loads(run("--json").stdout)
    # Prompts of up to 3,000 tokens in chunks of 512 hold decodes up for less at a time.
    assert data["classes"][0]["itl_s"]["max"] < default["classes"][0]["itl_s"]["max"]


def test_requests_are_routed_as_slo_yaml_declares(run):
    def figures(*arguments, more=""):
        return json.loads(run("--json", "--replicas", 3, *arguments, more=more).stdout)["classes"]

    told = figures("--routing", "least_loaded")
    assert figures(more="routing: least_loaded") == told
    assert figures("--routing", "random", more="routing: least_loaded") == figures() != told


def test_a_sampled_trace_is_scaled_up(run):
    whole = run("--json", more="sample_rate: 0.5")
    assert json.loads(whole.stdout)["replay"]["requests"] == pytest.approx(3000, abs=120)
    assert "scaling the traffic by 2" in whole.stderr
    half = run("--json", "--load", 0.5)
    assert json.loads(half.stdout)["replay"]["requests"] == pytest.approx(750, abs=120)


def test_every_request_as_parquet(run, tmp_path):
    file = tmp_path / "requests.parquet"
    assert run("--per-request", file).exit_code == 0
    table = pl.read_parquet(file)
    assert len(table) == 1500
    assert (table["e2e_s"] >= table["ttft_s"]).all()
    assert (table["ttft_s"] > table["queue_s"]).all()
    assert table.columns[:4] == ["arrival_s", "class", "input_tokens", "output_tokens"]
    with pytest.raises(InputError, match="cannot be written"):
        run("--per-request", tmp_path / "absent" / "requests.parquet")


def test_the_screen_names_targets_and_verdicts(run):
    text = run().stdout
    assert "1,500 requests through 1 × (1 × h100-sxm), random routing" in text
    assert text.count("holds, ") == 3
    tight = run("--max-num-batched-tokens", 256, "--max-num-seqs", 8, "--load", 6).stdout
    assert "VIOLATED" in tight


def test_what_does_not_fit_or_cannot_be_replayed_is_refused(run):
    with pytest.raises(InfeasibleError, match="does not fit"):
        run(model="meta-llama/Llama-3.1-70B-Instruct")
    with pytest.raises(InputError, match="least_loaded for vllm alone"):
        run("--routing", "least_loaded", more="engine: {name: sglang}")


def test_sglang_runs_prefill_and_decode_apart(run):
    """What a decode waits for a prompt shows in the longest gaps, not in the usual ones."""
    vllm = json.loads(run("--json").stdout)
    result = run("--json", more="engine: {name: sglang}")
    data = json.loads(result.stdout)
    assert data["deployment"]["engine"] == "sglang"
    (only,) = data["classes"]
    assert only["requests"] == only["e2e_s"]["count"] == 1500
    assert data["replay"]["rejected"] == {}
    assert only["ttft_s"]["p50"] < 1.0
    assert data["totals"]["hit_tokens"] == vllm["totals"]["hit_tokens"] == 0


def test_block_ids_go_through_the_prefix_cache(run, tmp_path):
    """A Mooncake log: every prompt begins with the same two blocks of 512 tokens."""
    rows = [
        {
            "timestamp": 2000 * i,
            "input_length": 1500,
            "output_length": 5,
            "hash_ids": [7, 8, 100 + i],
        }
        for i in range(50)
    ]
    file = tmp_path / "mooncake.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    data = json.loads(run("--json", "--trace", file, only=True).stdout)
    assert data["totals"]["hit_tokens"] == 49 * 1024
    assert "of prompt tokens hit" in run("--trace", file, only=True).stdout
    off = json.loads(run("--json", "--no-enable-prefix-caching", "--trace", file, only=True).stdout)
    assert off["totals"]["hit_tokens"] == 0
    assert off["classes"][0]["ttft_s"]["mean"] > data["classes"][0]["ttft_s"]["mean"]


def test_a_closed_loop_of_clients(run):
    """More clients, more throughput and longer answers; the recorded arrivals do not matter."""

    def loop(clients):
        data = json.loads(run("--json", "--concurrency", clients, more="sample_rate: 0.5").stdout)
        assert data["arrivals"] == {"concurrency": clients, "sessions": False}
        assert data["replay"]["requests"] == 1500  # nothing is scaled
        return 1500 / data["totals"]["span_s"], data["classes"][0]

    few, many = loop(4), loop(64)
    assert many[0] > 4 * few[0]
    assert many[1]["tpot_s"]["mean"] > few[1]["tpot_s"]["mean"]
    # Little's law: rate × time in the system; the run's ramp and drain are a few percent of it.
    assert few[0] * few[1]["e2e_s"]["mean"] == pytest.approx(4, rel=0.02)
    assert "closed loop of 64 clients: " in run("--concurrency", 64).stdout
    refused = run("--concurrency", 4, "--load", 2)
    assert refused.exit_code == 2
    assert "none of --sessions, --load and --burstier" in refused.output


def test_sessions_wait_for_their_last_turn(run, tmp_path):
    """Two turns a second apart, 400 tokens of output: the second comes when the first ends."""
    file = tmp_path / "sessions.csv"
    rows = {"arrival_s": [0.0, 1.0], "input_tokens": [100, 100], "output_tokens": [400, 400]}
    pl.DataFrame(rows | {"session_id": ["a", "a"]}).write_csv(file)
    per_request = tmp_path / "requests.parquet"
    result = run("--trace", file, "--sessions", "--per-request", per_request, only=True)
    assert result.exit_code == 0
    table = pl.read_parquet(per_request)
    assert table["arrival_s"][1] == pytest.approx(table["e2e_s"][0], rel=1e-12)
    assert table["e2e_s"][0] > 1.0
    assert "names no sessions" in run("--sessions").stderr


def test_other_policies(run):
    plain = json.loads(run("--json").stdout)
    for policy in ("dynamic_splitfuse", "sarathi_serve", "sarathi", "sglang"):
        data = json.loads(run("--json", "--policy", policy).stdout)
        assert data["scheduler"]["policy"] == policy
        assert data["classes"][0]["e2e_s"]["count"] == 1500
    # One block of max_model_len each: few requests fit at once.
    sarathi = json.loads(run("--json", "--policy", "sarathi").stdout)
    assert sarathi["scheduler"]["num_blocks"] < plain["scheduler"]["num_blocks"] / 1000
    with pytest.raises(InputError, match="--policy orca: without chunking"):
        run("--policy", "orca")
    whole = ("--policy", "orca", "--max-model-len", 4096, "--max-num-batched-tokens", 4096)
    assert run(*whole).exit_code == 0


def test_priorities_come_from_the_classes(run, tmp_path):
    rows = {"arrival_s": [0.0, 0.01, 0.02], "input_tokens": [10] * 3, "output_tokens": [50] * 3}
    file = tmp_path / "labelled.csv"
    pl.DataFrame(rows | {"class": ["batch", "batch", "chat"]}).write_csv(file)
    slo = tmp_path / "classes.yaml"
    slo.write_text(
        "model: meta-llama/Llama-3.1-8B-Instruct\nclasses:\n"
        "  chat: {match: {class: chat}, priority: -1, slo: {ttft_s: {p99: 5}}}\n"
        "  batch: {slo: {ttft_s: {p99: 60}}}\n"
    )

    def waited(*more):
        words = ["--trace", file, "--slo", slo, "--max-num-seqs", 1, "--json", *more]
        data = json.loads(run(*words, only=True).stdout)
        return {each["name"]: each["queue_s"]["max"] for each in data["classes"]}

    plain, urgent = waited(), waited("--scheduling-policy", "priority")
    assert urgent["chat"] < plain["chat"] / 1.5
    assert urgent["batch"] > plain["batch"]
    assert "policy vllm_v1, scheduling policy priority" in (
        run("--scheduling-policy", "priority").stdout
    )


def test_a_pipeline_and_drafts_are_what_was_simulated(run):
    data = json.loads(run("--json", "--pp", 2).stdout)
    assert data["deployment"]["pipeline_parallel_size"] == 2
    small = ["--max-num-batched-tokens", 512, "--max-num-seqs", 256]
    bubbles = json.loads(run("--json", "--pp", 2, *small).stdout)["pipeline"]["bubble_s"]
    assert 0.0 <= bubbles["p50"] < bubbles["max"]
    alone = json.loads(run("--json").stdout)
    tpot = [each["classes"][0]["tpot_s"]["p50"] for each in (alone, data)]
    assert tpot[1] > 0.9 * tpot[0]  # a pipeline does not make a lone decode faster
    words = ["--num-speculative-tokens", 3, "--acceptance-rates", "0.8,0.6,0.5"]
    faster = json.loads(run("--json", *words).stdout)
    assert faster["speculation"] == {"acceptance_rates": [0.8, 0.6, 0.5]}
    ratio = tpot[0] / faster["classes"][0]["tpot_s"]["p50"]
    assert 2.0 < ratio < 3.3  # 2.9 tokens a step, longer ones, among fewer requests at a time
    screen = run(*words, "--pp", 2).stdout
    assert "2 stages: they idled" in screen
    assert "3 drafts a step give 2.90 tokens, by a drafter of one layer" in screen


def test_speculation_needs_its_acceptance(run):
    with pytest.raises(InputError, match="num_speculative_tokens is 2, but there are 0"):
        run("--num-speculative-tokens", 2)
    with pytest.raises(InputError, match="no falling shares"):
        run("--num-speculative-tokens", 2, "--acceptance-rates", "0.5,0.6")
    result = run("--num-speculative-tokens", 1, "--acceptance-rates", "high")
    assert result.exit_code == 2
    assert "'high' is no list of shares" in result.stderr


def test_separate_pools(run):
    with pytest.raises(InputError, match="link between the pools has no speed"):
        run("--prefill-replicas", 1)
    words = ["--prefill-replicas", 2, "--replicas", 3, "--kv-link-bytes-per-s", "50e9"]
    data = json.loads(run("--json", *words).stdout)
    assert data["replay"]["replicas"] == 5
    pools = data["disaggregation"]
    assert (pools["prefill_replicas"], pools["decode_replicas"]) == (2, 3)
    # 32 layers × 8 KV heads × 128 × 2 (K and V) × 2 bytes
    assert pools["link"]["kv_bytes_per_token"] == pytest.approx(131_072)
    mixed = json.loads(run("--json", "--replicas", 5).stdout)
    tail = [each["classes"][0]["itl_s"]["max"] for each in (mixed, data)]
    assert tail[1] < 0.7 * tail[0]  # no prompt between two tokens
    slow = json.loads(run("--json", *words[:-1], "1e9").stdout)
    assert slow["classes"][0]["ttft_s"]["p50"] > 2 * data["classes"][0]["ttft_s"]["p50"]
    assert "(2 prefill + 3 decode) × (1 × h100-sxm)" in run(*words).stdout


def test_pools_do_not_follow_ends_and_pipelines_do(run):
    pools = ["--prefill-replicas", 1, "--kv-link-bytes-per-s", "50e9"]
    for words in (["--concurrency", 4], ["--sessions"]):
        with pytest.raises(InputError, match="closed loops are replayed without separate pools"):
            run(*pools, *words)
        routed = ["--replicas", 2, "--routing", "least_loaded", *words]
        with pytest.raises(InputError, match="least_loaded through pipelines where requests"):
            run("--pp", 2, *routed)
        for how in (["--pp", 2, *words], routed):
            data = json.loads(run("--json", *how).stdout)
            assert data["replay"]["rejected"] == {}
            assert all(each["ttft_s"]["count"] for each in data["classes"])
    with pytest.raises(InputError, match="priority is replayed without separate pools"):
        run(*pools, "--scheduling-policy", "priority")


def test_a_layout_that_does_not_divide_the_heads_is_refused(run):
    with pytest.raises(InputError, match="does not divide the 32 attention heads") as caught:
        run("--tp", 3)
    assert caught.value.exit_code == 2
    assert len(caught.value.problems) == 1
    with pytest.raises(InputError, match="33 stages for the 32 layers"):
        run("--pp", 33)


def test_a_budget_below_the_default_sequences_lowers_them(run):
    """As vLLM does: the default of 1,024 sequences shrinks to a budget of 512 tokens."""
    result = run("--json", "--max-num-batched-tokens", 512)
    assert result.exit_code == 0
    deployment = json.loads(result.stdout)["deployment"]
    assert (deployment["max_num_batched_tokens"], deployment["max_num_seqs"]) == (512, 512)
    assert "max_num_seqs 512 instead of 1024" in result.stderr
    given = run("--json", "--max-num-batched-tokens", 512, "--max-num-seqs", 512)
    assert "instead of" not in given.stderr
    assert json.loads(given.stdout)["classes"] == json.loads(result.stdout)["classes"]


def test_sequences_that_a_budget_cannot_hold_are_refused_with_the_remedy(run):
    with pytest.raises(InputError, match="512 is below max_num_seqs, 600") as caught:
        run("--max-num-batched-tokens", 512, "--max-num-seqs", 600)
    assert "lower max_num_seqs" in caught.value.problems[0].hint
    with pytest.raises(InputError, match="between 1 and"):
        run("--max-num-batched-tokens", 32768, "--max-num-seqs", 32768)
