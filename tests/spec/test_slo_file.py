"""A valid slo.yaml: what it means, what is filled in, what is worth a warning."""

import copy
import json
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import InputError
from planner.spec.load import parse_document
from planner.spec.schema import load_schema, properties, with_defaults
from planner.spec.slo import METRICS, Slo, Target, WorkloadClass
from planner.spec.slo_classes import covers
from planner.spec.slo_file import load_slo
from planner.spec.slo_text import as_declared, default_values

MODEL = "meta-llama/Llama-3.1-8B-Instruct"
SMALLEST = f"""
model: {MODEL}
slo:
  ttft_s: {{p99: 4.0}}
  tpot_s: {{p99: 0.1}}
"""
FULL = f"""
model: {MODEL}
engine: {{name: vllm, version: "0.11"}}
classes:
  chat:
    match: {{class: [chat, support], input_tokens: {{max: 8000}}}}
    priority: -1
    slo:
      e2e_s: {{p90: 20}}
      itl_s: {{p99.9: 0.5}}
      ttft_s: {{p99: 2, p50: 0.4}}
      tpot_s: {{attainment: 0.95, limit_s: 0.05}}
  rest:
    slo: {{ttft_s: {{p95: 4}}}}
evaluation_window_s: 1800
min_requests_per_window: 20000
growth: 0.15
headroom: 0.2
spare_replicas: 1
sample_rate: 0.05
gpus: [h100, L40S]
prices_usd_per_hour: {{l40s: 0.9, h100: 2.5}}
weight_dtypes: [bf16, fp8]
kv_cache_dtypes: fp8
tensor_parallel_sizes: [2, 1]
pipeline_parallel_sizes: 1
max_num_batched_tokens: [8192, 2.048e3]
max_num_seqs: 256
gpu_memory_utilization: 0.92
prefix_caching: false
expert_parallel: true
routing: round_robin
current: {{replicas: 4, gpus: 8}}
seed: 7
"""


@pytest.fixture
def load(tmp_path):
    def loaded(text, name="slo.yaml"):
        file = tmp_path / name
        file.write_text(text, encoding="utf-8")
        return load_slo(file)

    return loaded


def problems(load, text, **names):
    with pytest.raises(InputError) as caught:
        load(text, **names)
    return caught.value.problems


def test_smallest_file(load):
    slo = load(SMALLEST)
    (only,) = slo.classes
    assert slo.model == MODEL
    assert only == WorkloadClass(
        name="all",
        targets=(
            Target(metric="ttft_s", percentile=99.0, limit_s=4.0),
            Target(metric="tpot_s", percentile=99.0, limit_s=0.1),
        ),
    )
    assert slo.warnings == ()
    expected = Slo(model=MODEL, classes=slo.classes, file=slo.file, defaulted=slo.defaulted)
    assert slo == expected  # the schema's defaults are the dataclass's


def test_every_default_is_named(load):
    schema = load_schema("slo")
    declared = {"engine.name", "engine.version"} | {
        name for name, sub in properties(schema, schema).items() if "default" in sub
    }
    assert set(load(SMALLEST).defaulted) == declared
    assert load(FULL).defaulted == ()
    assert load(SMALLEST + "headroom: 0.1\n").headroom == 0.1
    assert "headroom" not in load(SMALLEST + "headroom: 0.1\n").defaulted
    assert "engine.version" in load(SMALLEST + "engine: {name: sglang}\n").defaulted
    assert "engine.name" not in load(SMALLEST + "engine: {name: sglang}\n").defaulted


def test_full_file(load):
    slo = load(FULL)
    chat, rest = slo.classes
    assert chat.match == {"class": ["chat", "support"], "input_tokens": {"max": 8000}}
    assert [(t.metric, t.percentile, t.limit_s) for t in chat.targets] == [
        ("ttft_s", 50.0, 0.4),
        ("ttft_s", 99.0, 2.0),
        ("tpot_s", 95.0, 0.05),
        ("itl_s", 99.9, 0.5),
        ("e2e_s", 90.0, 20.0),
    ]
    assert rest.match == {}
    assert (chat.priority, rest.priority) == (-1, 0)
    assert slo == Slo(
        model=MODEL,
        classes=(chat, rest),
        engine="vllm",
        engine_version="0.11",
        evaluation_window_s=1800.0,
        min_requests_per_window=20000,
        growth=0.15,
        headroom=0.2,
        spare_replicas=1,
        sample_rate=0.05,
        gpus=("h100-sxm", "l40s"),
        weight_dtypes=("bf16", "fp8"),
        kv_cache_dtypes=("fp8",),
        tensor_parallel_sizes=(1, 2),
        pipeline_parallel_sizes=(1,),
        max_num_batched_tokens=(2048, 8192),
        max_num_seqs=(256,),
        gpu_memory_utilization=(0.92,),
        prefix_caching=False,
        expert_parallel=True,
        routing="round_robin",
        prices_usd_per_hour={"h100-sxm": 2.5, "l40s": 0.9},
        current_replicas=4,
        current_gpus=8,
        seed=7,
        file=slo.file,
    )
    assert all(isinstance(value, int) for value in slo.max_num_batched_tokens)


def test_a_list_of_classes_means_the_same_as_a_mapping(load):
    mapping = load(
        f"model: {MODEL}\nclasses: {{a: {{match: {{class: x}}, slo: {{ttft_s: {{p99: 1}}}}}}}}"
    )
    listed = load(
        f"model: {MODEL}\nclasses:\n- {{name: a, match: {{class: x}}, slo: {{ttft_s: {{p99: 1}}}}}}"
    )
    assert mapping == listed


@pytest.mark.parametrize(
    ("attainment", "percentile"),
    [(0.5, 50.0), (0.9, 90.0), (0.95, 95.0), (0.99, 99.0), (0.999, 99.9), (0.9999, 99.99)],
)
def test_attainment_is_a_percentile(load, attainment, percentile):
    text = f"model: {MODEL}\nmin_requests_per_window: 100000\nslo: {{e2e_s: "
    by_share = load(f"{text}{{attainment: {attainment}, limit_s: 9}}}}")
    by_name = load(f"{text}{{p{percentile:g}: 9}}}}")
    assert by_share.classes == by_name.classes
    assert by_share.classes[0].targets[0].percentile == percentile


def test_json_says_the_same_as_yaml(load):
    data = {"model": MODEL, "slo": {"ttft_s": {"p99": 4.0}, "tpot_s": {"p99": 0.1}}}
    from_json = load(json.dumps(data), name="slo.json")
    assert replace(from_json, file="") == replace(load(SMALLEST), file="")


def test_an_alias_is_resolved_and_the_order_of_keys_does_not_matter(load):
    slo = load(f"slo: {{ttft_s: {{p99: 4}}}}\ngpus: H100\nmodel: {MODEL.split('/')[1].lower()}\n")
    assert (slo.model, slo.gpus) == (MODEL, ("h100-sxm",))


def test_a_config_json_is_found_beside_the_file(load, tmp_path):
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 4096,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "intermediate_size": 14336,
        "vocab_size": 128256,
        "max_position_embeddings": 8192,
        "torch_dtype": "bfloat16",
    }
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours/config.json").write_text(json.dumps(config))
    slo = load("model: ./ours/config.json\nslo: {ttft_s: {p99: 4}}\n")
    assert slo.model == str(tmp_path / "ours/config.json")


def test_a_broken_config_json_is_reported_at_the_model_with_its_own_place(load, tmp_path):
    (tmp_path / "config.json").write_text('{"architectures": \n oops}')
    (problem,) = problems(load, "model: ./config.json\nslo: {ttft_s: {p99: 4}}\n")
    assert (problem.line, problem.column, problem.path) == (1, 8, "model")
    assert "config.json:2:2" in problem.message


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("growth: 5", "slo.yaml:6:9 growth: 5 is unusual (above 1)"),
        ("headroom: 0.9", "slo.yaml:6:11 headroom: 0.9 is unusual (above 0.7)"),
        ("evaluation_window_s: 1", "slo.yaml:6:22 evaluation_window_s: 1 is unusual (below 60)"),
        ("prices_usd_per_hour: {h100: 250}", "h100: 250 is unusual (above 100)"),
        ("gpu_memory_utilization: 0.1", "0.1 is unusual (below 0.5)"),
    ],
)
def test_unusual_values_are_warned_about(load, line, expected):
    (warning,) = load(SMALLEST + line).warnings
    assert expected in warning


@pytest.mark.parametrize(
    ("targets", "expected"),
    [
        ("{ttft_s: {p99: 200}}", "milliseconds? declare seconds: 0.2"),
        ("{ttft_s: {p99: 0.001}}", "0.001 is unusual (below 0.02)"),
        ("{tpot_s: {p99: 2}}", "2 is unusual (above 1)"),
        ("{ttft_s: {p99: 4}, e2e_s: {p99: 3}}", "ttft_s p99 4 s can never bind: e2e_s p99 is 3 s"),
        ("{ttft_s: {p99.9: 4}}", "rests on the 1 slowest (min_requests_per_window: 10000"),
    ],
)
def test_suspicious_targets_are_warned_about(load, targets, expected):
    (warning,) = load(f"model: {MODEL}\nslo: {targets}\n").warnings
    assert expected in warning


@pytest.mark.parametrize(
    ("lines", "place", "expected"),
    [
        ("engine: {name: sglang}\nrouting: least_loaded", (7, 10), "replayed for vllm alone"),
        ("prefix_caching: false\nrouting: cache_aware", (7, 10), "finds no prefix cache"),
        ("routing: leastloaded", (6, 10), "'leastloaded'"),
    ],
)
def test_a_routing_that_cannot_be_planned_is_refused_at_its_place(load, lines, place, expected):
    (problem,) = problems(load, SMALLEST + lines)
    assert (problem.line, problem.column) == place
    assert problem.path == "routing"
    assert expected in problem.message


def test_no_warning_without_reason(load):
    assert load(FULL).warnings == ()
    assert (
        load(f"model: {MODEL}\nslo: {{itl_s: {{p99.9: 0.5}}}}\n").warnings == ()
    )  # tokens, not requests
    looser = "{ttft_s: {p99: 4}, e2e_s: {p90: 3, p99: 30}}"
    assert load(f"model: {MODEL}\nslo: {looser}\n").warnings == ()


def test_as_declared_is_a_file_that_says_the_same(load):
    for text in (SMALLEST, FULL):
        slo = load(text)
        again = load(json.dumps(as_declared(slo)), name="again.json")
        assert replace(again, file="", defaulted=()) == replace(slo, file="", defaulted=())
        assert again.defaulted == ()


def test_schema_and_dataclass_name_the_same_things():
    schema = load_schema("slo")
    elsewhere = {"engine", "slo", "classes", "current"}  # nested in the file, flat in the dataclass
    flat = {"engine", "engine_version", "classes", "current_replicas", "current_gpus"}
    about_the_file = {"file", "defaulted", "warnings"}
    in_file = set(schema["properties"]) - elsewhere
    in_class = {field.name for field in fields(Slo)} - flat - about_the_file
    assert in_file == in_class
    assert set(properties(schema["$defs"]["targets"], schema)) == set(METRICS)


def test_classes_can_be_matched_only_on_columns_that_ingest_knows():
    ingest = pytest.importorskip("planner.ingest.classes")
    schema = load_schema("slo")
    assert set(schema["$defs"]["match"]["properties"]) <= set(ingest.MATCHABLE)


def test_defaults_pass_their_own_schema(load):
    schema = load_schema("slo")
    filled, paths = with_defaults({"model": MODEL, "slo": {"ttft_s": {"p99": 4}}}, schema, schema)
    slo = load(json.dumps(filled), name="filled.json")
    assert slo.defaulted == ()
    assert set(default_values(tuple(paths))) == set(paths)


PERCENTILES = [50, 75, 90, 95, 99, 99.5]
LIMITS = st.lists(st.integers(1, 50), min_size=2, max_size=6)


@given(limits=LIMITS)
def test_targets_are_refused_exactly_when_a_higher_percentile_is_smaller(tmp_path_factory, limits):
    file = tmp_path_factory.mktemp("slo") / "slo.yaml"
    lines = [f"    p{p:g}: {limit}" for p, limit in zip(PERCENTILES, limits, strict=False)]
    head = [f"model: {MODEL}", "min_requests_per_window: 100000", "slo:", "  ttft_s:"]
    file.write_text("\n".join([*head, *lines]))
    wrong = [i for i in range(1, len(limits)) if limits[i] < limits[i - 1]]
    if not wrong:
        assert [t.limit_s for t in load_slo(file).classes[0].targets] == limits
        return
    with pytest.raises(InputError) as caught:
        load_slo(file)
    assert [problem.line - len(head) - 1 for problem in caught.value.problems] == wrong


CONDITIONS = (
    st.integers(0, 5)
    | st.lists(st.integers(0, 5), min_size=1, max_size=3)
    | st.fixed_dictionaries({}, optional={"min": st.integers(0, 5), "max": st.integers(0, 5)})
)
MATCHES = st.dictionaries(st.sampled_from(["input_tokens", "output_tokens"]), CONDITIONS)


def fits(request, match):
    for column, condition in match.items():
        value = request[column]
        if isinstance(condition, dict):
            if not condition.get("min", value) <= value <= condition.get("max", value):
                return False
        elif value not in (condition if isinstance(condition, list) else [condition]):
            return False
    return True


@given(wide=MATCHES, narrow=MATCHES)
def test_covers_never_claims_what_a_request_refutes(wide, narrow):
    if covers(wide, narrow):
        for i in range(7):
            for j in range(7):
                request = {"input_tokens": i, "output_tokens": j}
                assert not fits(request, narrow) or fits(request, wide)


@given(match=MATCHES)
def test_everything_is_covered_by_no_condition_and_by_itself(match):
    assert covers({}, match)
    if not any(isinstance(condition, dict) for condition in match.values()):
        assert covers(match, match)


EDITS = st.lists(
    st.tuples(st.integers(0, len(FULL)), st.integers(0, 3), st.text("{}:,[]0 \n.e-", max_size=2)),
    min_size=1,
    max_size=3,
)


@given(edits=EDITS)
def test_a_damaged_file_gives_problems_or_an_slo_and_never_a_crash(tmp_path_factory, edits):
    text = FULL
    for at, removed, added in edits:
        text = text[:at] + added + text[at + removed :]
    file = tmp_path_factory.mktemp("slo") / "slo.yaml"
    file.write_text(text)
    found = ()
    try:
        slo = load_slo(file)
        assert slo.classes
        assert all(item.targets for item in slo.classes)
    except InputError as error:
        found = error.problems
    assert all(problem.line >= 1 for problem in found)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 10**6)
    | st.floats()
    | st.sampled_from(["h100", "bf16", "vllm", "", "p99", "200ms", "./x", "\n", MODEL]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["p99", "min", "match", "slo", "a", "name"]), inner)
    ),
    max_leaves=5,
)


def paths(value, path=()):
    yield path
    steps = value.items() if isinstance(value, dict) else ()
    for step, item in enumerate(value) if isinstance(value, list) else steps:
        yield from paths(item, (*path, step))


FULL_DATA = parse_document(FULL, "slo.yaml").data
PATHS = list(paths(FULL_DATA))


@given(path=st.sampled_from(PATHS), value=VALUES)
def test_any_value_anywhere_gives_problems_at_it_or_an_slo(tmp_path_factory, path, value):
    data = copy.deepcopy(FULL_DATA)
    holder = data
    for step in path[:-1]:
        holder = holder[step]
    if path:
        holder[path[-1]] = value
    else:
        data = value
    file = tmp_path_factory.mktemp("slo") / "slo.json"
    file.write_text(json.dumps(data))
    found = ()
    try:
        load_slo(file)
    except InputError as error:
        found = error.problems
    assert all(problem.line >= 1 and problem.message for problem in found)


@pytest.mark.parametrize("name", ["slo.yaml", "slo.json"])
def test_what_stands_under_a_key_written_twice_is_looked_over_too(tmp_path, name):
    path = tmp_path / name
    twice = '{"model": "meta-llama/Llama-3.1-8B-Instruct", "slo": {"ttft_s": {"p99": 4.0}},'
    path.write_text(twice + ' "slo": {"tpot_s": {"p99": -1}, "foo": 3}}', encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load_slo(path)
    told = [problem.message for problem in caught.value.problems]
    assert told[0] == "key 'slo' is written twice"
    assert any("greater than 0" in message for message in told)
    assert any("unknown key" in message for message in told)
