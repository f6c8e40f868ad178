# Two commands on a fresh machine with python3 and make: `make demo`, `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
MEASUREMENTS ?= ../shared/groundtruth
TRACES ?= ../shared/traces
LENGTHS ?= ../shared/traces/lengths ../shared/traces/azure2023
PYTEST ?= $(BIN)/pytest -n 2 --dist loadgroup

.PHONY: help setup demo test check format bench docs confirmed fit lock clean

help:  ## list the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/'

setup: $(STAMP)  ## create .venv, install the locked set, compile the kernels once

$(STAMP): requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if (3, 11) <= v < (3, 14) else f"planner needs Python 3.11, 3.12 or 3.13; {sys.executable} is {v[0]}.{v[1]}. Try: make PYTHON=python3.12 setup")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	$(BIN)/python -m planner.solve.warm
	@touch $@

demo: setup  ## set up, then size the example week
	$(BIN)/planner recommend --trace traces/week42.parquet --gpu h100 --slo slo.yaml

test: setup  ## set up, then run the tests
	$(PYTEST)

check: setup  ## what CI runs: format, lint, types, layers, docs, tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(PYTEST)

format: setup  ## rewrite the sources in the house format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: setup  ## timings and counts
	$(BIN)/pytest tests -m bench --benchmark-only

docs: setup  ## regenerate what is generated: CLI reference, equations, input reference
	$(BIN)/python -m planner.cli.reference > docs/cli.md
	$(BIN)/python -m planner.spec.schema_docs docs/inputs.md
	$(BIN)/python -m planner.perf.equations.document > docs/equations.md
	@if [ -d $(MEASUREMENTS) ]; then $(BIN)/python -m planner.calibrate.document $(MEASUREMENTS) docs/accuracy.md; fi
	@if [ -d $(MEASUREMENTS) ]; then $(BIN)/python -m planner.calibrate.document_rows $(MEASUREMENTS) docs/accuracy-rows.md; fi
	@if [ -d $(firstword $(LENGTHS)) ]; then $(BIN)/python -m planner.reproduce.document docs/validation.md $(LENGTHS); fi

confirmed: setup  ## make plans on real traffic, follow them step by step, write docs/confirmed.md (needs TRACES; minutes)
	$(BIN)/python tests/solve/confirmed.py $(TRACES) docs/confirmed.md

fit: setup  ## fit efficiencies, overheads and bands to the measurements (needs MEASUREMENTS)
	$(BIN)/python -m planner.calibrate.fit $(MEASUREMENTS) --output planner/data/calibration --engines planner/data/engines

lock:  ## resolve the dependencies again (needs uv)
	uv pip compile -q pyproject.toml --universal --python-version 3.11 --fork-strategy fewest --generate-hashes --no-emit-index-url --no-header -o requirements/run.txt
	uv pip compile -q pyproject.toml --group dev --universal --python-version 3.11 --fork-strategy fewest --generate-hashes --no-emit-index-url --no-header -o requirements/dev.txt

clean:  ## remove everything that is built
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache build dist
