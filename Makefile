# Everything runs in ./.venv, which the first target makes; a second run does only what changed.
# `make demo` and `make test` need Python 3.11, Rust, a C compiler and a package registry, and say which one is missing.
.DEFAULT_GOAL := help
.NOTPARALLEL:
SHELL := /bin/sh

ROOT := $(abspath $(dir $(lastword $(MAKEFILE_LIST))))
BIN := $(ROOT)/.venv/bin
PY := $(BIN)/python
CARGO_PATH := $(BIN):$(PATH):$(HOME)/.cargo/bin
CARGO := PATH="$(CARGO_PATH)" PYO3_PYTHON="$(PY)" cargo
# tests see the installed wheel, whatever the caller's shell says
unexport PYTHONPATH PYTHONHOME
export PYTHONDONTWRITEBYTECODE := 1
export PYTHONUTF8 := 1

.PHONY: help demo test lint lint-python lint-rust test-rust test-python build tools format clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(lastword $(MAKEFILE_LIST)) | expand -t 24

demo: build ## a real conversation saved and recalled, in the terminal
	@$(BIN)/kektordb demo

test: tools lint test-rust build test-python ## all checks and tests: lint, cargo test, wheel, pytest on the installed wheel
	@echo "make test: all green"

lint: lint-python lint-rust ## ruff, mypy --strict, import contracts, rustfmt, clippy

lint-python: tools
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy python/kektordb
	PYTHONPATH=$(ROOT)/python $(BIN)/lint-imports --no-logo

lint-rust: tools
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets --features kektordb-core/python,kektordb-core/faults -- -D warnings

test-rust: tools ## cargo test of the workspace
	$(CARGO) test --locked --workspace --features kektordb-core/faults

build: ## the release wheel in dist/, installed into .venv
	@PYTHON="$(PYTHON)" tools/bootstrap.sh wheel

test-python: build ## pytest against the installed wheel
	KEKTORDB_TEST_INSTALLED=1 $(PY) -P -m pytest $(ARGS)
	$(PY) -P benches/run.py --smoke --engines kektordb

tools: ## .venv with the pinned tools
	@PYTHON="$(PYTHON)" tools/bootstrap.sh tools

format: tools ## format Python and Rust
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(CARGO) fmt --all

clean: ## remove .venv, dist and target
	rm -rf .venv dist target

.PHONY: bench
bench: build ## side by side with other engines, ratios and recall (ARGS="--rows 100000 --dim 384")
	@tools/bench.sh $(ARGS)
