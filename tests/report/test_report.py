from __future__ import annotations

import html
import math
import re
from dataclasses import replace
from itertools import cycle

import pytest

from planner.report.chunk_words import balance_equation
from planner.report.format import seconds as format_seconds
from planner.report.render import render
from planner.solve.plan import Finding

HEADINGS = [
    "1. Plan",
    "2. Why this and not less",
    "3. The surge",
    "4. Demand and data quality",
    "5. Expected latency against target",
    "6. Alternatives and why they lost",
    "7. What would change this",
    "8. How sure",
    "9. Roll-out and operation",
    "10. Assumptions and defaults",
    "11. Provenance",
]


def report(plan) -> str:
    return render(plan)["report.md"]


def decision(text: str) -> str:
    return text.split("\n\n")[1]


def section(text: str, number: int) -> str:
    return text.split(f"\n## {number}. ")[1].split("\n## ", maxsplit=1)[0]


def outside_code(text: str) -> str:
    """The Markdown without fenced blocks and code spans, where nothing is markup."""
    text = re.sub(r"^(`{3,})[^\n]*\n.*?^\1$", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"(`+)(?!`).+?(?<!`)\1(?!`)", "", text)


def test_the_example_report(example, file_regression):
    file_regression.check(report(example()), extension=".md", encoding="utf-8")


@pytest.mark.parametrize(
    "name", ["no_price", "surge_decides", "chunking_does_not_matter", "one_gpu_without_dates"]
)
def test_a_report_at_an_edge(edge, name, file_regression):
    file_regression.check(report(edge(name)), extension=".md", encoding="utf-8")


def test_sections_come_in_the_order_a_reviewer_reads(plan):
    assert re.findall(r"^## (.*)$", report(plan), flags=re.MULTILINE) == HEADINGS


def test_the_decision_is_the_first_thing_and_one_sentence(plan):
    lines = decision(report(plan)).splitlines()
    assert all(line.startswith("> ") for line in lines)
    assert re.fullmatch(r"> \*\*Run .*\.\*\*", lines[0])


def test_tables_have_the_same_number_of_cells_in_every_row(plan):
    rows: list[int] = []
    for line in outside_code(report(plan)).splitlines():
        if line.startswith("|"):
            rows.append(len(re.findall(r"(?<!\\)\|", line)))
            assert rows[-1] == rows[0], line
        else:
            rows = []


def test_nothing_on_the_page_is_a_programmer_s_word(plan):
    page = report(plan)
    text = outside_code(page)
    assert not re.search(r"\b(None|nan|inf|True|False|Undefined|Markup)\b", text)
    assert "{{" not in text
    assert "{%" not in text
    assert "\n\n\n" not in page
    assert not re.search(r"\d\.\d{7,}", text)


def test_every_figure_is_linked_relatively_and_exists(plan):
    files = render(plan)
    links = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", outside_code(files["report.md"]))
    assert sorted(links) == sorted(name for name in files if name.endswith(".svg"))


def test_no_markup_of_a_log_survives(edge):
    text = outside_code(report(edge("hostile")))
    assert not re.search(r"(?<!\\)<(?=[a-zA-Z/!])", text)
    assert "](javascript" not in text.replace("\\]", "")
    assert "**f**" not in text.replace("\\*", "")


def test_the_hostile_plan_parses_to_the_same_structure_as_the_example(example, edge):
    """A Markdown parser sees the same headings, tables and rows whatever the strings hold."""
    markdown_it = pytest.importorskip("markdown_it")
    parser = markdown_it.MarkdownIt("commonmark", {"html": True}).enable("table")

    def shape(text: str) -> tuple[int, int, int]:
        tokens = parser.parse(text)
        assert not [token for token in tokens if token.type == "html_block"]
        kinds = [token.type for token in tokens]
        inline = [child.type for token in tokens for child in token.children or ()]
        assert "html_inline" not in inline
        assert "link_open" not in inline
        return kinds.count("heading_open"), kinds.count("table_open"), inline.count("image")

    assert shape(report(edge("hostile"))) == shape(report(example()))


def numbers_in(text: str) -> list[float]:
    return [
        float(n.replace(",", "").replace("−", "-")) for n in re.findall(r"−?[\d,]+\.?\d*", text)
    ]


def test_the_balance_equation_gives_its_own_answer(example):
    """The numbers on the page, put into the formula on the page, give the answer on the page.

    Four digits each: 0.5 % at worst after the subtraction.
    """
    formula, line = balance_equation(example()).splitlines()
    assert formula == "C* = R·(1 + D·S·k/(2P)) − D"
    ridge, _, kv, weights, decodes, answer = numbers_in(line.replace(" − ", " "))
    assert ridge * (1 + kv / weights) - decodes == pytest.approx(answer, rel=0.005)
    assert answer == pytest.approx(example().chunk.balance_chunk_tokens, abs=0.5)


def test_quantised_weights_get_the_equation_that_holds_for_them(example):
    """With fp8 weights 2P is not the weight bytes: w and φ are printed apart.

    φ is 2 · 8.03e9 FLOP, w 8.03e9 B and the gigabyte that stays at 16 bit.
    """
    plan = example()
    chunk = plan.chunk
    weights, flops, per_token = 9.08e9, 16.06e9, 131_072
    kv = chunk.decode_seqs * chunk.context_tokens * per_token
    balance = chunk.ridge_flops_per_byte * (weights + kv) / flops - chunk.decode_seqs
    changed = replace(
        chunk,
        token_flops=flops,
        weight_bytes=weights,
        kv_read_bytes_per_token=per_token,
        floor_weights_s=chunk.floor_weights_s * weights / flops,
        balance_chunk_tokens=balance,
        balance_flag_tokens=balance + chunk.decode_seqs,
    )
    formula, line = balance_equation(replace(plan, chunk=changed)).splitlines()
    assert formula == "C* = R·(w + D·S·k)/φ − D"
    ridge, w, d, s, k, phi, decodes, answer = numbers_in(line.replace(" − ", " "))
    assert (w, k, phi) == (weights, per_token, flops)
    assert ridge * (w + d * s * k) / phi - decodes == pytest.approx(answer, rel=0.005)
    assert answer == pytest.approx(balance, abs=0.5)


def test_an_equation_that_does_not_give_the_answer_is_not_printed(example):
    plan = example()
    twice = 2.0 * plan.chunk.balance_chunk_tokens
    flag = twice + plan.chunk.decode_seqs
    wrong = replace(plan.chunk, balance_chunk_tokens=twice, balance_flag_tokens=flag)
    assert balance_equation(replace(plan, chunk=wrong)) == "C* = 1,019"


def test_the_replica_table_multiplies_out(example):
    """Peak · (1 + growth) / (capacity · (1 − headroom)), four digits each."""
    text = section(report(example()), 2).split("### Replicas")[1]
    peak, growth, capacity, share, exact = (
        float(re.sub(r"[^\d.]", "", cell.split("|")[0]))
        for cell in re.findall(r"^\|[^|]*\| ([\d,.]+(?: requests/s)?) \|", text, re.MULTILINE)[:5]
    )
    assert peak * growth / (capacity * share) == pytest.approx(exact, rel=1e-3)


def test_the_memory_table_adds_up(example):
    """Visible × utilisation − the four items = KV, two decimals each."""
    table = section(report(example()), 2).split("Memory of one GPU")[1]
    gib = [float(n) for n in re.findall(r"([\d.]+) GiB", table)[:6]]
    visible, weights, activation, non_torch, graphs, kv = gib
    assert visible * 0.92 - weights - activation - non_torch - graphs == pytest.approx(kv, abs=0.03)


def test_without_a_price_the_report_says_so_and_shows_no_dollars(edge):
    text = report(edge("no_price"))
    assert "No price is known" in decision(text)
    assert "$" not in text


def test_the_first_paragraph_names_what_the_answer_rests_on(example, edge):
    text = decision(report(example()))
    assert "rests on prefix reuse" in text
    assert "output length +20 % gives 8 GPUs" in text
    assert "−20 % gives 6" not in text  # what would lower the count is in section 7
    assert "closed-form" in text
    assert "knife's edge" in decision(report(edge("surge_decides")))
    assert "closed-form" not in decision(report(edge("replayed")))


def test_when_chunking_does_not_matter_the_report_says_so_and_why(edge):
    text = section(report(edge("chunking_does_not_matter")), 2)
    assert "Chunking does not matter here" in text
    assert "because 100 % of the prompts fit one step" in text


def test_missed_targets_are_in_the_first_paragraph(edge):
    assert "2 of 3 targets are missed" in decision(report(edge("missed")))


def test_every_percentile_metric_is_defined(plan):
    text = section(report(plan), 5)
    for name in ("TTFT", "TPOT", "ITL", "E2E"):
        assert f"- {name}: " in text
    assert "inverted-CDF" in text


def test_merged_windows_are_said(example):
    assert "(2 windows merged)" in section(report(example()), 5)


def test_a_rejected_row_shows_reason_count_and_example(example):
    text = section(report(example()), 4)
    assert "| set aside | 312 | output_tokens is zero |" in text
    assert "row 4411" in text


def test_defaults_and_declared_values_are_told_apart(example):
    text = section(report(example()), 10)
    assert "| `headroom` | 0.1 | default |" in text
    assert "| `growth` | 0.1 | declared |" in text
    assert "| `engine.version` | not set | default |" in text
    assert "| `classes.chat.targets.tpot_s.p99` | 0.05 | declared |" in text
    assert "| `current.gpus` | 9 | declared |" in text


def test_alerts_carry_the_engine_s_own_metric_names(example, edge):
    assert "`vllm:kv_cache_usage_perc`" in section(report(example()), 9)
    assert "`sglang:token_usage`" in section(report(edge("on_sglang")), 9)
    assert "not known to planner" in section(report(edge("unknown_engine")), 9)


def test_the_launch_command_is_in_the_report_word_for_word(example):
    import shlex

    plan = example()
    block = section(report(plan), 1).split("```sh\n")[1].split("\n```")[0]
    assert tuple(shlex.split(block.replace("\\\n", " "))) == plan.launch


def test_the_report_shows_what_plan_json_holds_not_more(example):
    """Digits beyond plan.json's rounding change nothing on the page."""
    plan = example()
    noisy = replace(plan.surge, mean_prompt_tokens_per_s=136_000.04)
    assert render(replace(plan, surge=noisy)) == render(plan)


def test_a_plan_that_disobeys_its_schema_is_not_written(example):
    with pytest.raises(ValueError, match="verified"):
        render(example(verified="hoped for"))


def test_unbounded_values_are_words(edge):
    text = html.unescape(section(report(edge("missed")), 5))
    assert "n/a" in text
    assert not math.isnan(len(text))


def test_capacities_are_cut_not_rounded(example):
    """449,280 tokens over 1,870 is 240.3 and over 3,900 is 115.2; 153.9 would be 153."""
    plan = example()
    nearly = replace(plan.concurrency, resident_at_mean=153.9, resident_at_p95=57.6)
    text = section(report(replace(plan, concurrency=nearly)), 2)
    assert "So 153 sequences of mean held context fit, 57 at the p95" in text


def test_every_moved_assumption_says_what_stops_it(example):
    text = section(report(example()), 7)
    assert "| output length | +20 % | 8 | 8 | chat TPOT p99: 52.1 ms > 50 ms |" in text
    assert "| load | +20 % | 9 | 9 | 8.096 for the load, rounded up |" in text


def test_why_longer_prompts_weigh_more_is_said_where_they_do(example):
    plan = example()
    (row,) = (row for row in plan.sensitivity if row.assumption == "load")
    for prompts, said in ((12, True), (9, False)):
        more = replace(row, assumption="input_tokens", replicas=prompts, gpus=prompts, exact=None)
        text = report(replace(plan, sensitivity=(*plan.sensitivity, more)))
        assert ("weigh more than load" in text) == said


def test_the_load_test_takes_the_window_that_decides(example):
    text = section(report(example()), 9)
    assert "--random-output-len 248 --request-rate 32.1" in text
    assert f"--random-input-len {round(1712 * (1 - 0.11))} " in text  # 11 % are taken as cached
    assert "the window that decides, Tue 2026-10-13 10:00–11:00: 1,712 tokens in" in text
    assert "--custom-dataset-type mooncake_trace" in text
    assert "--fixed-schedule" in text


def test_the_load_test_says_what_to_expect_and_what_refutes(example):
    text = section(report(example()), 9)
    assert "| TPOT mean | 21 ms (17.6 ms to 24.8 ms) | 24.8 ms | none |" in text
    assert "| TTFT p99 | 620 ms (521 ms to 732 ms) | 732 ms | 2 s, chat |" in text
    assert "| TPOT p99 | 47 ms (39.5 ms to 55.5 ms) | 50 ms | 50 ms, chat |" in text
    assert "TPOT mean above 24.8 ms: steps are slower than the band allows." in text
    assert "expected beyond the limit" not in text


def test_a_limit_that_the_load_test_cannot_keep_is_named(example):
    plan = example()
    rows = tuple(
        replace(each, expected_s=2.1, high_s=2.5, refuted_above_s=2.5)
        if each.limit_s == 2
        else each
        for each in plan.load_test.rows
    )
    text = section(report(replace(plan, load_test=replace(plan.load_test, rows=rows))), 9)
    assert "| 2.5 s | 2 s, chat |" in text
    assert "TTFT p99 of this run is expected beyond the limit" in text


def test_without_a_replay_the_load_test_is_held_against_the_limits(example):
    plan = example()
    rows = tuple(
        replace(each, expected_s=nan, low_s=nan, high_s=nan, refuted_above_s=each.limit_s)
        for each in plan.load_test.rows
        if each.limit_s is not None
        for nan in (math.nan,)
    )
    test = replace(plan.load_test, runs=0, rows=rows)
    text = section(report(replace(plan, load_test=test)), 9)
    assert "| TTFT p99 | 2 s | chat |" in text
    assert "Refuted above" not in text


def test_a_plan_of_an_older_version_has_no_constant_load(example):
    text = section(report(replace(example(), load_test=None)), 9)
    assert "bench serve" not in text
    assert "The window itself, with its own arrivals" in text


def test_the_search_table_says_why_each_group_fell(example):
    text = section(report(example()), 6)
    assert (
        "| h100-sxm | TP2 | bf16 | bf16 | 128 | 96 | 0 | 8 | $16.08/h | no cheaper even if" in text
    )
    assert (
        "| h100-sxm | TP8 | bf16 | bf16 | 128 | 128 | 0 | n/a | n/a | does not fit in memory |"
        in text
    )
    assert "512 configurations: 288 fit in memory" in text
    assert "took 611 replays" in text


def test_every_target_whose_band_reaches_beyond_its_limit_is_in_the_first_paragraph(example):
    plan = example()
    wide = tuple(
        replace(row, high_s=2 * row.limit_s, high_by_doubt_s={doubt: 2 * row.limit_s})
        for row, doubt in zip(plan.latency, cycle(["step_time", "bursts_of_the_sample"]))
    )
    text = decision(report(replace(plan, latency=wide)))
    slower, bursts = text.split("If steps are slower")[1], text.split("If the bursts of the")[1]
    for row in wide:
        told = slower if "step_time" in row.high_by_doubt_s else bursts
        limit = format_seconds(row.limit_s)
        assert re.search(rf"{row.class_name} [A-Z0-9]+ p[0-9.]+ \([^)]* > {limit}, [^)]+\)", told)
    assert "without the load test" in slower
    assert "unsampled" in bursts


def test_the_count_for_even_traffic_can_be_reproduced(example):
    """Rate over (1 − headroom) times capacity, rounded up, is the count on the page."""
    finding = Finding(
        id="surge_decides",
        values={
            "mean_prompt_tokens_per_s": 40_669.0,
            "busiest_10min_prompt_tokens_per_s": 126_896.0,
            "busiest_minute_prompt_tokens_per_s": 131_138.0,
            "mean_requests_per_s": 12.44,
            "even_capacity_requests_per_s": 4.918,
            "headroom_share": 0.1,
            "replicas_for_mean": 3,
            "replicas": 9,
        },
    )
    text = section(report(example(findings=(finding,))), 3)
    rate, share, capacity, count = re.search(
        r"([\d.]+)/\(([\d.]+) · ([\d.]+)\) rounds up to (\d+) replicas for the load", text
    ).groups()
    assert math.ceil(float(rate) / (float(share) * float(capacity))) == int(count)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("replayed", "none in the replay up to 1.54× this load, and the KV cache full at 1.61×"),
        ("never_preempts", "none in the replay up to 4× this load"),
        (
            "full_already",
            "at this load the replay already fills the KV cache to 99.61 %",
        ),
        (
            "preempts_already",
            "at this load the replay already fills the KV cache to 100 % and preempts",
        ),
        (
            "preempts_in_an_older_plan",
            "at this load the replay already fills the KV cache to 100 %",
        ),
        (
            "one_class",
            "mean use of the KV cache reaches its capacity at 1.73× this load, by the eq",
        ),
    ],
)
def test_the_distance_to_preemption_is_the_replay_s_where_there_is_one(edge, name, said):
    """The equations' figure is of mean use, and stands only where no replay does."""
    text = report(edge(name))
    for number in (7, 9):
        assert said in section(text, number)
    assert ("1.73×" in text) == (name == "one_class")
    assert "cliff" not in text


def test_the_fullest_moment_is_named_with_what_fills_it(edge):
    text = section(report(edge("replayed")), 2)
    assert "48 % full at most (Tue 2026-10-13 11:23:20, window Tue 2026-10-13 11:00–12:00)" in text
    assert "96 requests run there then, of which 31 of class code bring 71 %" in text
    assert "fills before a target is lost" not in text


def test_a_cache_that_fills_before_a_target_is_lost_is_said(edge):
    text = section(report(edge("full_already")), 2)
    assert "Distance to preemption, by replay: 0 %. At the plan's own load a burst fills" in text
    assert "though the replay of the whole trace sees no preemption" in text
    assert "as the load grows the KV cache fills before a target is lost" in text


@pytest.mark.parametrize(
    ("name", "use", "preemptions"),
    [
        (
            "replayed",
            "above 90 % | preemption follows at 100 %; the plan's replay is at 48 %",
            "any",
        ),
        (
            "full_already",
            "above 90 % | preemption follows at 100 %; the plan's replay is",
            "more than 96 in",
        ),
        (
            "preempts_already",
            "above 90 % for longer than 12 min, not ten minutes |",
            "more than 96 in",
        ),
    ],
)
def test_no_alert_of_the_kv_cache_fires_in_the_plan_s_own_replay(edge, name, use, preemptions):
    text = section(report(edge(name)), 9)
    assert use in text
    assert f"| Preemptions | `vllm:num_preemptions_total` | {preemptions}" in text
    assert "the plan expects" not in text.split("| Waiting")[0].split("| KV use")[1]


def test_the_distance_to_overload_says_where_the_targets_end(example):
    """One replica carries 32.1 requests/s, seven are asked for 177.2 · 1.1 = 194.9: 1.153."""
    assert "the latency targets end at 1.15× this load" in section(report(example()), 7)


def test_a_bound_that_the_plan_refutes_is_said_to_be_and_not_proposed(example):
    plan = example()
    chunk = replace(plan.chunk, missed_below_flag_tokens=1024)
    text = section(report(replace(plan, chunk=chunk)), 2)
    assert "chat TTFT p99 ≤ 2 s; refuted: a flag of 1,024 misses in section 6 |" in text
    assert "smallest, refuted |" in text
    assert "smallest allowed" not in text


def test_nothing_is_proposed_where_every_neighbour_misses(example):
    values = {"low_tokens": 0, "chosen_tokens": 1475, "high_tokens": 0, "half_tokens": 0}
    finding = Finding(id="load_test_decides", values=values)
    text = section(report(example(findings=(finding,))), 9)
    assert "no other is left to try" in text
    assert "one change at a time" not in text


def test_the_alert_on_prompt_tokens_is_at_the_capacity_of_section_2(example):
    """32.1 requests/s of 1,712 tokens each: 54,955 tokens/s, not what a budget alone sustains."""
    text = section(report(example()), 9)
    assert (
        f"above {32.1 * 1712:,.0f} tokens/s on average over 1 h, not ten minutes | more than"
        in text
    )


def test_the_fast_end_of_a_band_that_hides_launches_is_marked_and_explained(example):
    text = section(report(example()), 3)
    rows = [line for line in text.splitlines() if "†" in line and line.startswith("|")]
    assert [line.split("|")[1].strip() for line in rows] == ["512"]
    assert "one fitted constant of 7.4 ms, is taken as hidden" in text
    assert "error band of the step time" not in text


def test_no_busiest_window_below_the_mean(example):
    plan = example()
    assert "of the busiest 1 h by the clock" in section(report(plan), 1)
    short = replace(plan.cost, peak_tokens_per_s=plan.cost.mean_tokens_per_s)
    text = section(report(replace(plan, cost=short)), 1)
    assert "busiest" not in text


def test_clock_windows_and_sliding_ones_are_told_apart(example):
    text = report(example())
    assert "Busiest minute, clock / mean" in section(text, 4)
    assert "These windows slide: any second, any 60 s" in section(text, 4)
    assert "in the busiest minute (any 60 s, from" in section(text, 3)


def test_t_says_what_it_is_the_mean_of(example):
    plan = example()
    said = (
        "class over the whole trace, T = 1,300 tokens (1,480 tokens of input less what the prefix"
    )
    chunk = replace(plan.chunk, prompt_tokens=1_300.0)
    assert said in section(report(replace(plan, chunk=chunk)), 2)


def test_the_bands_say_what_they_do_not_hold(example):
    text = section(report(example()), 8)
    assert "covers four in five of the measured mean TPOTs" in text
    assert "Neither holds an error of the queueing model" in text
