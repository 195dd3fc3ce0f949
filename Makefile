# Clutch. The two commands of a newcomer: `make demo` and `make test`.
# `make VENV=path ...` uses an environment that already has PyTorch.

VENV ?= .venv
PYTHON ?= python3
BIN := $(abspath $(VENV))/bin
export CLUTCH_TEST_SITE_PACKAGES = $(shell $(BIN)/python -c 'import site; print(site.getsitepackages()[0])' 2>/dev/null)
export PYO3_PYTHON := $(BIN)/python
export HF_HUB_OFFLINE := 1

RUST_SOURCES := $(shell find src graph passes cache pjrt proto -name target -prune -o -name '*.rs' -o -name '*.proto' -o -name Cargo.toml 2>/dev/null) Cargo.toml Cargo.lock build.rs
SETUP := $(VENV)/.clutch-setup
BUILT := $(VENV)/.clutch-built

.DEFAULT_GOAL := help
.PHONY: help setup build demo test test-rust test-python models families lengths coverage bench-first-call bench-steady bench-rewrites nits fmt clean

help: ## show this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-17s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(SETUP) ## virtual environment with the pinned dependencies

$(SETUP): requirements.txt requirements-plugins.txt requirements-dev.txt tools/setup-environment
	PYTHON=$(PYTHON) tools/setup-environment $(VENV)
	@touch $@

build: $(BUILT) ## release build of the extension, installed into the environment

$(BUILT): $(SETUP) $(RUST_SOURCES) pyproject.toml
	PIP_QUIET=1 VIRTUAL_ENV=$(abspath $(VENV)) $(BIN)/maturin develop --release --quiet --locked
	@touch $@

demo: $(BUILT) ## ResNet-50, BERT-base and a 12-layer Llama, compiled and compared with eager
	$(BIN)/python examples/quickstart.py

test: test-rust test-python ## all tests

test-rust: $(SETUP)
	cargo test --workspace --locked

test-python: $(BUILT)
	$(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist worksteal

models: $(BUILT) ## models of three libraries, beside eager; writes docs/supported-models.md (MODELS="--only llama,bert" for less)
	cd tools && $(BIN)/python -m model_coverage --write $(MODELS)

families: $(BUILT) ## the ten model families in their usual sizes
	$(BIN)/python -m pytest -m base tests/python/test_models.py

lengths: $(BUILT) ## every size from 1 to 512 on eight models, inference and training
	$(BIN)/python -m pytest -m sweep tests/python/test_lengths.py

coverage: $(BUILT) ## PyTorch's operator database; writes docs/supported-ops.md (COVERAGE="--samples 2" for less)
	cd tools && $(BIN)/python -m op_coverage --write $(COVERAGE)

bench-first-call: $(BUILT) ## first call, cold and warm, beside a do-nothing backend and Inductor
	$(BIN)/python benches/first_call.py

bench-steady: $(BUILT) ## steady latency beside Inductor and eager, and the overhead of a call
	$(BIN)/python benches/steady.py

bench-rewrites: $(BUILT) ## cycles of the TPU compiler's schedules with rewriting on and off (REWRITES="--only llama" for less)
	$(BIN)/clutch estimate benches/rewrites.py $(REWRITES)

nits: $(SETUP) ## rustfmt, clippy and ruff
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --features python --locked -- -D warnings
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

fmt: $(SETUP) ## format all code
	cargo fmt --all
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## remove build results; the environment stays
	cargo clean
	rm -f $(BUILT)
