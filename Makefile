# The commands of the project, the same on a laptop and in CI. They need python3 (3.11 to 3.13) and make, no more:
# whichever runs first makes .venv, and it is renewed when pyproject.toml changes. `make` lists them.

PYTHON ?= python3
ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
DEV := $(VENV)/.dev-installed
DOCS := $(VENV)/.docs-installed

# What programs leave behind goes to .cache; JAX keeps its compiled programs there, so that a second run is quicker.
export JAX_COMPILATION_CACHE_DIR := $(CURDIR)/.cache/jax
export JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS := 0.1
export HYPOTHESIS_STORAGE_DIRECTORY := $(CURDIR)/.cache/hypothesis
export DIFFNEA_CACHE := $(CURDIR)/.cache/kernels
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Tests run in two processes: threads of BLAS would only wait for each other.
test test-unit test-all coverage fuzz: export OPENBLAS_NUM_THREADS := 1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help benchmark test test-unit test-all check coverage fuzz docs links dist oldest hooks clean

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

benchmark: $(DEV) ## fit and judge the paper's 26 models on small data; the page is runs/report.html
	$(BIN)/diffnea benchmark --quick $(ARGS)

test: $(DEV) ## the quick tests; ARGS="-k aba" chooses some
	$(BIN)/python -m pytest -m "not slow" $(ARGS)

test-unit: $(DEV) ## readers, text, command line: a minute
	$(BIN)/python -m pytest -m "unit and not slow" $(ARGS)

test-all: $(DEV) ## every test
	$(BIN)/python -m pytest --jaxtyping-packages=diffnea,beartype.beartype $(ARGS)

check: $(DEV) ## formatting, lint, types, and which module may import which
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/lint-imports --no-logo --cache-dir .cache/import-linter

coverage: $(DEV) ## the quick tests, and which lines they run; the pages are in .cache/coverage
	$(BIN)/python -m pytest -m "not slow" --cov --cov-report=term --cov-report=html $(ARGS)

fuzz: $(DEV) ## a million mutated files, led by coverage; ARGS="--seconds 60" for a minute a reader
	-$(BIN)/python -m pip install --quiet --editable '.[fuzz]'
	$(BIN)/python tests/hostile/fuzz.py $(ARGS)

docs: $(DOCS) ## build the documentation into site/
	$(BIN)/mkdocs build --strict

links: $(DEV) ## whether links from README and docs to other sites are alive
	$(BIN)/python .ci/links.py

dist: $(DEV) ## wheel and sdist into dist/, each tried in an environment that has nothing else
	rm -rf dist
	$(BIN)/python -m build --outdir dist
	for file in dist/*.whl dist/*.tar.gz; do .ci/try $$file || exit 1; done

oldest: ## make .venv with the oldest versions that pyproject.toml allows
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	mkdir -p .cache
	$(BIN)/python .ci/oldest.py > .cache/oldest.txt
	$(BIN)/python -m pip install --quiet --constraint .cache/oldest.txt --editable '.[dev]'
	@touch $(DEV)

hooks: $(DEV) ## check what is committed and pushed (pre-commit)
	$(BIN)/pre-commit install --hook-type pre-commit --hook-type pre-push

clean: ## remove caches and what was built; .venv stays
	rm -rf .cache .hypothesis build dist site
	find src tests examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

$(DEV): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' || \
		{ echo "make: $$($(PYTHON) --version 2>&1 || true); use Python 3.11, 3.12 or 3.13 (make PYTHON=python3.12)" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@

$(DOCS): $(DEV)
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	@touch $@
