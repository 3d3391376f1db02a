# Every target works from a clean clone: the virtual environment is made on first use and
# refreshed when setup.cfg or pyproject.toml change.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
RELEASE ?= 1.37.0 1.30.14
CLUSTER := fixtures/clusters/kubeadm-15-nodes-1.29.json

# Test modules and programs that tests and benchmarks start are compiled once, also where the environment says otherwise.
test test-slow bench: export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help venv demo test test-slow controlplane e2e check lint type imports sizes format bench soak judge widths fidelity docs golden \
	dist smoke clean

help: ## Say what the targets do
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/\t/' | expand -t 12

$(STAMP): setup.cfg pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "error: Python 3.11 or newer is needed; say PYTHON=/path/to/python3.11" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

venv: $(STAMP) ## Make the virtual environment with all dependencies

demo: $(STAMP) ## Predict what the loss of zone eu-1b evicts from a recorded 15-node cluster
	$(BIN)/kubectl-evictplan what-if fail zone eu-1b -f $(CLUSTER)

test: $(STAMP) ## Run the tests (well under two minutes)
	$(BIN)/python -m pytest -q -n auto --dist worksteal

test-slow: $(STAMP) ## Run the tests marked slow
	$(BIN)/python -m pytest -q -n auto --dist worksteal -m slow

check: lint type imports sizes ## Run every static check

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

type: $(STAMP)
	$(BIN)/mypy

imports: $(STAMP)
	$(BIN)/lint-imports --config setup.cfg

sizes: $(STAMP)
	$(BIN)/python .ci/size_limits.py

format: $(STAMP) ## Format the code and fix what can be fixed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

controlplane: ## Build a real control plane with Go: RELEASE="1.37.0 1.30.14"; kept in ~/.cache
	$(PYTHON) tests/controlplane/binaries.py $(RELEASE)

e2e: $(STAMP) ## Hold predictions against real control planes on loopback (Go, or KUBEBUILDER_ASSETS)
	@test -n "$$KUBEBUILDER_ASSETS" || ! command -v go >/dev/null || $(MAKE) --no-print-directory controlplane
	@echo "$(RELEASE): two at a time, each told when it has ended"
	@mkdir -p build
	@printf '%s\n' $(RELEASE) | xargs -P 2 -I '{}' sh -c 'RELEASE={} $(BIN)/python -m pytest -m live \
	  tests/controlplane -rs --durations=10 > build/e2e-{}.log 2>&1; status=$$?; cat build/e2e-{}.log; exit $$status'

bench: $(STAMP) ## Measure time and memory on generated clusters
	$(BIN)/python benchmarks/bench.py --docs
	$(BIN)/python benchmarks/live_snapshot.py
	$(BIN)/python benchmarks/apply_bench.py

soak: $(STAMP) ## Hold random worlds against random realities: SECONDS=600 SEED=1 BOUNDS=1; WORLD=1 is one alone
	$(BIN)/python benchmarks/soak.py $(if $(WORLD),--world $(WORLD),--seconds $(or $(SECONDS),600)) \
	  $(SEED:%=--seed %) $(REALITIES:%=--realities %) $(PROCESSES:%=--processes %) $(KIND:%=--kind %) $(if $(BOUNDS),--bounds)

judge: $(STAMP) ## Play drawn worlds through upstream's own controllers (Go): RELEASE=1.37.0 SECONDS=600 SEED=1 KIND=crowded, lagging or drains; WORLD=1 alone
	$(BIN)/python benchmarks/judge.py --release $(firstword $(RELEASE)) $(if $(WORLD),--world $(WORLD),--seconds $(or $(SECONDS),600)) \
	  $(SEED:%=--seed %) $(PROCESSES:%=--processes %) $(KEEP:%=--keep %) $(KIND:%=--kind %)

widths: $(STAMP) ## Tell how wide windows are next to 1,000 realities of each world: WORLDS=10 KIND=upstream; half an hour
	$(BIN)/python benchmarks/widths.py $(SEED:%=--seed %) $(WORLDS:%=--worlds %) $(REALITIES:%=--realities %) \
	  $(KIND:%=--kind %)

fidelity: $(STAMP) ## Compare predictions with recorded runs of real control planes; renews the table in the README
	$(BIN)/python benchmarks/fidelity.py --readme --upstream

docs: $(STAMP) ## Write the worked examples of docs/examples anew
	$(BIN)/python .ci/examples.py
	@git --no-pager diff --stat -- docs/examples

golden: $(STAMP) ## Rewrite the expected reports; read the difference before you commit it
	EVICTPLAN_UPDATE_GOLDEN=1 $(BIN)/python -m pytest -q -k golden
	@git --no-pager diff --stat -- tests

# The same commit gives the same bytes.
dist: export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 315532800)
dist: $(STAMP) ## Build the wheel, one file that needs only Python, and its krew manifest
	rm -rf dist build/lib build/single-file
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .
	$(BIN)/python .ci/single_file.py

smoke: dist ## Install the wheel alone, without development extras, and run it; run the single file
	rm -rf build/smoke && $(PYTHON) -m venv build/smoke
	build/smoke/bin/python -m pip install --quiet --disable-pip-version-check dist/*.whl
	build/smoke/bin/kubectl-evictplan what-if taint node a1 maintenance=true:NoExecute \
	  -f fixtures/examples/mini-cluster.yaml
	env -i PATH="$$PATH" HOME="$(CURDIR)/build/smoke" dist/kubectl-evictplan what-if cordon a1 \
	  -f fixtures/examples/mini-cluster.yaml

clean: ## Remove everything that can be made again
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis \
	  .import_linter_cache .bench
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
