"""Compiled and plain kernels agree, and an edited kernel is never mistaken for a cached one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest

from planner.sim import jit
from planner.sim.by_reference import refer
from planner.sim.warm import compile_kernels

HERE = Path(__file__).resolve().parent

PLAIN = """
import sys
sys.path.insert(0, sys.argv[1])
import numba
from dataclasses import replace
import numpy as np
from sim_cases import case
from test_pipeline import in_stages
from test_prefix import trace_of, with_ids
from test_sglang import unmixed
from planner.sim.disaggregated import Link, Pool, replay_disaggregated
from planner.sim.replay import replay
from planner.spec.slo import WorkloadClass
print(bool(numba.config.DISABLE_JIT), file=sys.stderr)
for seed in range(8):
    one = case(seed, tight=seed % 2 == 1, threshold=seed % 3 == 1, windows=seed % 3,
               asynchronous=seed % 2 == 0, ideal=seed == 5, most=25)
    for routing in ("random", "least_loaded"):
        done = replay(one.trace, one.cost, one.settings, replicas=2, routing=routing, debug=True)
        for values in (done.ttft_s, done.e2e_s, done.queue_s, done.preemptions, done.replica,
                       done.series.kv_use, done.gaps[done.gaps > 0]):
            print([float(x).hex() for x in values])
    with_ids(one, np.random.default_rng(seed), unit=one.settings.block_size)
    cached = replace(one.settings, enable_prefix_caching=True)
    done = replay(trace_of(one, one.settings.block_size), one.cost, cached, debug=True)
    print([float(x).hex() for x in (*done.e2e_s, done.totals.hit_tokens)])
    ranked = replace(one.settings, scheduling_policy="priority")
    classes = [WorkloadClass(name="class1", targets=(), priority=-1)]
    done = replay(one.trace, one.cost, ranked, classes=classes, debug=True)
    print([float(x).hex() for x in done.e2e_s])
    turns = replace(one.trace, session_id=np.arange(len(one.jobs)) % 3)
    done = replay(turns, one.cost, one.settings, follow_sessions=True, debug=True)
    print([float(x).hex() for x in done.e2e_s])
    done = replay(one.trace, one.cost, one.settings, concurrency=5, debug=True)
    print([float(x).hex() for x in done.e2e_s])
    done = replay(trace_of(one, one.settings.block_size), one.cost, cached, replicas=2,
                  routing="cache_aware", debug=True)
    print(done.replica.tolist(), [float(x).hex() for x in done.e2e_s])
    staged = in_stages(one, 1 + seed % 3, 2, (0.8, 0.5))
    for routing in ("random", "least_loaded"):
        done = replay(staged.trace, staged.cost, staged.settings, replicas=2, routing=routing,
                      debug=True)
        print([float(x).hex() for x in (*done.ttft_s, *done.e2e_s, *done.bubble_s)])
    pool = Pool(cost=one.cost, settings=one.settings)
    done = replay_disaggregated(one.trace, pool, pool,
                                Link(kv_bytes_per_token=1.0, bytes_per_s=1e4))
    print([float(x).hex() for x in (*done.whole.ttft_s, *done.whole.e2e_s)])
    other = unmixed(one, spare=60, daring=0.1)
    done = replay(other.trace, other.cost, other.settings, debug=True)
    print([float(x).hex() for x in done.e2e_s])
"""


def run(code, *arguments, **environment):
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        env={**os.environ, **environment},
        cwd=HERE.parent.parent,
        capture_output=True,
        text=True,
        check=True,
    )


def test_the_same_bytes_without_numba():
    """NUMBA_DISABLE_JIT=1 runs the kernel as plain Python: every bit of every time is equal."""
    plain, compiled = run(PLAIN, HERE, NUMBA_DISABLE_JIT="1"), run(PLAIN, HERE)
    assert (plain.stderr.strip(), compiled.stderr.strip()) == ("True", "False")
    assert plain.stdout == compiled.stdout
    assert len(plain.stdout.splitlines()) == 8 * (2 * 7 + 9)


CALL = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import outer
print(outer.twice(5), sum(outer.twice.stats.cache_hits.values()))
"""
OUTER = """
from pathlib import Path
from planner.sim.jit import Compiler
from inner import step
COMPILER = Compiler(Path(__file__).parent)

@COMPILER.entry
def twice(x):
    return 2 * step(x)
"""
INNER = """
from pathlib import Path
from planner.sim.jit import Compiler

@Compiler(Path(__file__).parent).part
def step(x):
    return x + {by}
"""


def test_an_edit_in_a_callee_is_noticed(tmp_path):
    """numba alone would serve `twice` from its cache with the old `step` inside."""
    kernels = tmp_path / "kernels"
    kernels.mkdir()
    (kernels / "outer.py").write_text(OUTER)

    def call(by):
        (kernels / "inner.py").write_text(INNER.format(by=by))
        # Python's own bytecode goes by second and size, which both edits share.
        environment = {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
        return run(CALL, kernels, **environment).stdout.split()

    assert call(1) == ["12", "0"]
    assert call(1) == ["12", "1"]
    assert call(3) == ["16", "0"]


class Sheds(NamedTuple):
    """The one field of a World by which window functions know that they are wanted."""

    shed: Any


@jit.windowed
def shed_more(w, slot, count):
    w.shed[slot] += count
    return 5


@numba.njit(error_model="numpy", _nrt=False)
def shed_twice(w):
    return shed_more(refer(w), 0, 2) + shed_more(refer(w), 1, 3)


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="plain Python asks the World at run time")
@pytest.mark.parametrize(
    ("counter", "returned", "counted"), [(np.int64, 10, [2, 3]), (np.int8, 0, [0, 0])]
)
def test_window_functions_do_nothing_where_nothing_is_counted(counter, returned, counted):
    world = Sheds(shed=np.zeros(2, counter))
    assert shed_twice(world) == returned
    assert world.shed.tolist() == counted


def test_kernels_can_be_compiled_ahead():
    compile_kernels()
    assert jit.compiled_before()


def test_the_cache_folder_is_named_by_the_sources(tmp_path, monkeypatch):
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "a.py").write_text("x = 1\n")
    before = jit.cache_dir(tmp_path)
    assert before.parent == tmp_path / "llm-trace-planner"
    (tmp_path / "a.py").write_text("x = 2\n")
    assert jit.cache_dir(tmp_path) != before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_without_a_writable_folder_kernels_still_compile(tmp_path, monkeypatch):
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(locked))
    kernels = jit.Compiler(Path(jit.__file__).parent / "kernel")
    assert not kernels.cached
    assert kernels.entry(abs_of)(-3) == 3


def abs_of(x):
    return x if x > 0 else -x
