# Everything a newcomer needs: `make demo` and `make test`. Each does all of its own set-up.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PYTHON ?= $(firstword $(shell command -v python3.11 python3.12 python3))
BIN := .venv/bin
STAMPS := build/stamps
export PYTHONPATH := $(CURDIR)

help: ## Show what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(STAMPS):
	@mkdir -p $@

$(STAMPS)/system: deploy/dev/system-packages.sh | $(STAMPS)
	@deploy/dev/system-packages.sh
	@touch $@

$(STAMPS)/venv: requirements-dev.lock pyproject.toml $(STAMPS)/system
	@echo "Setting up the Python environment in .venv"
	@[ -x $(BIN)/python ] || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements-dev.lock
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	@$(BIN)/python -m gpuledger.agent.probes.prepare >/dev/null
	@$(BIN)/python -m gpuledger.agent.byte_code
	@touch $@

$(STAMPS)/artifacts: $(addprefix services/gpuledger/localstack/,pom.xml artifacts.py classes.py) $(STAMPS)/venv
	@echo "Fetching Kafka and the schema registry"
	@$(BIN)/python -m gpuledger.localstack fetch
	@touch $@

BPF_SOURCES := $(wildcard bpf/* services/gpuledger/agent/probes/*.py) services/gpuledger/contract/operations.py

$(STAMPS)/bpf: $(BPF_SOURCES) $(STAMPS)/venv
	@echo "Compiling the probes"
	@$(BIN)/python -m gpuledger.agent.probes.compile
	@touch $@

bpf: $(STAMPS)/bpf ## Compile the probes ahead of time, for nodes without a compiler

wheel: $(STAMPS)/bpf ## The distribution with the compiled probes, in build/wheel
	@$(BIN)/python -m pip wheel -q --no-deps --no-build-isolation --disable-pip-version-check -w build/wheel .

.PHONY: help setup emulator bpf wheel demo test test-fast test-kernel test-gpu protocol budget-histories chaos replay-hour lint bench clean distclean lock

emulator: $(STAMPS)/system
	@$(MAKE) -C tests/emulator --silent

setup: $(STAMPS)/venv $(STAMPS)/artifacts $(STAMPS)/bpf emulator ## Prepare everything, run nothing

demo: setup ## From a CUDA call in a pod to a row of money, on real parts
	@$(BIN)/python -m tests.e2e.demo

test: setup ## All tests
	@$(BIN)/python -m tests.suite

test-fast: setup ## Unit and property tests only
	@$(BIN)/python -m pytest -q -n 2 --dist loadfile tests/unit tests/property

test-kernel: setup ## The driver's probes in a booted kernel with stub modules (needs qemu)
	@$(BIN)/python -m pytest -q tests/kernel

N ?= 100000
SEED ?=
protocol: $(STAMPS)/venv ## N random runs of the exactness protocol under faults, from SEED (slow)
	@$(BIN)/python -m tests.support.protocol_world --runs $(N) $(if $(SEED),--seed $(SEED))

HISTORIES = $(if $(filter command line,$(origin N)),$(N),1000)
budget-histories: $(STAMPS)/venv ## N random histories of budgets (1000) against a reference, from SEED
	@$(BIN)/python -m tests.property.budget_histories $(HISTORIES) $(SEED)

CHAOS_RUNS = $(if $(filter command line,$(origin N)),$(N),1)
CHAOS_SECONDS ?= 10
chaos: setup ## The real stack under random faults: N seeds from SEED, JOBS at a time, its ledger exact after each (slow)
	@$(BIN)/python -m tests.chaos --nodes 2 --seconds $(CHAOS_SECONDS) --runs $(CHAOS_RUNS) $(if $(SEED),--seed $(SEED)) $(if $(JOBS),--jobs $(JOBS))

replay-hour: setup ## An hour of a fleet with faults: charged live, archived, replayed to the same bytes (slow)
	@$(BIN)/python -m benchmarks.replay_hour

test-gpu: setup ## On a machine with an NVIDIA GPU: the agent beside a real CUDA program (else says so)
	@$(BIN)/python -m tests.gpu

# what benchmarks call must be there and take what they give; the rest of their types is not held
LOOSE = $(addprefix --disable-error-code=,arg-type assignment attr-defined call-overload index list-item misc)

lint: $(STAMPS)/venv ## ruff and mypy
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/mypy benchmarks $(LOOSE)

bench: setup ## All benchmarks; figures go to build/figures
	@$(BIN)/python -m benchmarks

lock: ## Write the hashed locks anew from pyproject.toml
	@$(BIN)/uv pip compile -q --generate-hashes --no-annotate --no-header --no-emit-index-url --no-emit-find-links --python-version 3.11 -o requirements.lock pyproject.toml
	@$(BIN)/uv pip compile -q --generate-hashes --no-annotate --no-header --no-emit-index-url --no-emit-find-links --python-version 3.11 --extra dev -c requirements.lock -o requirements-dev.lock pyproject.toml

clean: ## Remove what was built and measured, keep what was downloaded
	@rm -rf build/demo build/figures build/emulator build/data .mypy_cache .ruff_cache .pytest_cache .hypothesis

distclean: clean ## Remove the environment and the downloads too
	@rm -rf build .venv
