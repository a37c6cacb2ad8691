# Every target sets itself up in .venv of this checkout. Needs: Python >= 3.11, make and a package registry.
# PYTHON=python3.12 make ... picks another interpreter; TORCH_ARGS passes extra options to the torch install.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.SUFFIXES:
.PHONY: help demo test lint bench parity validation report notebooks picture clean

PYTHON ?= python3
TORCH_ARGS ?=
PYTEST_ARGS ?=
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq
SAY := @printf '[draftscope] %s\n'

help:
	@printf '%s\n' \
	  'make demo       compare drafters on a Pixel 9 and a Pixel 10 from the shipped traces, write build/report.html' \
	  'make test       the whole test suite (installs the PyTorch reference, fetches the small target model)' \
	  'make lint       ruff, mypy, import-linter' \
	  'make bench      benchmarks' \
	  'make parity     long identity, replay and oracle runs; writes a dated JSON' \
	  'make validation predictions beside published measurements, into docs/background' \
  'make report     build/report.html' \
	  'make notebooks  execute the notebooks' \
	  'make picture    draw the picture of the README (needs Chromium)' \
	  'make clean      remove .venv, build and caches'

# ------------------------------------------------------------------------------------------- set-up
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  printf 'error: draftscope needs Python >= 3.11, but PYTHON=%s is %s.\n       Try: make PYTHON=python3.11 ...\n' \
	    "$(PYTHON)" "$$($(PYTHON) --version 2>&1 || echo missing)" >&2; exit 1; }
	$(SAY) 'making a virtual environment in $(VENV)' >&2
	@$(PYTHON) -m venv $(VENV) || { \
	  echo "error: '$(PYTHON) -m venv' failed; on Debian and Ubuntu: apt-get install python3-venv" >&2; \
	  rm -rf $(VENV); exit 1; }

$(VENV)/.core: pyproject.toml | $(BIN)/python
	$(SAY) 'installing the core (no torch)' >&2
	@$(PIP) install -e .
	@touch $@

$(VENV)/.lint: $(VENV)/.core
	$(SAY) 'installing the development tools' >&2
	@$(PIP) install -e '.[dev]'
	@touch $@

# torch first, pinned and alone: resolved together with others it may pull a build of several gigabytes.
$(VENV)/.torch: | $(BIN)/python
	$(SAY) 'installing torch 2.13.0' >&2
	@$(PIP) install $(TORCH_ARGS) 'torch==2.13.0'
	@touch $@

$(VENV)/.full: $(VENV)/.lint $(VENV)/.torch
	$(SAY) 'installing the reference and the notebook tools' >&2
	@$(PIP) install -e '.[reference,notebooks,dev]'
	@touch $@

# ------------------------------------------------------------------------------------------ targets
demo: $(VENV)/.core
	@$(BIN)/draftscope compare --device pixel_9,pixel_10
	@mkdir -p build
	@$(BIN)/draftscope report --out build/report.html
	$(SAY) 'open build/report.html in a browser (it works offline)'

report: $(VENV)/.core
	@mkdir -p build
	@$(BIN)/draftscope report --out build/report.html

lint: $(VENV)/.lint
	$(SAY) 'ruff' >&2
	@$(BIN)/ruff check .
	$(SAY) 'mypy' >&2
	@$(BIN)/mypy
	$(SAY) 'import-linter' >&2
	@PYTHONPATH=. $(BIN)/lint-imports

test: $(VENV)/.full
	$(SAY) 'the target model (fetched once into the user cache)' >&2
	@$(BIN)/python -c 'from reference_impl.fetch import target_path; target_path()'
	@$(BIN)/python -m pytest $(PYTEST_ARGS)

bench: $(VENV)/.full
	@$(BIN)/python -m pytest benchmarks --benchmark-only --benchmark-disable-gc $(PYTEST_ARGS)

parity: $(VENV)/.full
	@$(BIN)/python -m reference_impl.parity

validation: $(VENV)/.core
	@$(BIN)/python docs/build.py validation

notebooks: $(VENV)/.full
	@$(BIN)/python docs/build.py notebooks

picture: $(VENV)/.full
	@$(BIN)/python docs/build.py picture

clean:
	@rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
