# The one task runner. `make` alone lists the tasks.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready
BASE ?= origin/main

.PHONY: help
help: ## List the tasks
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 20

$(READY): requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11")'
	@echo "Installing into .venv; this takes a minute or two."
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $(READY)

.PHONY: setup
setup: $(READY) ## Make the virtual environment .venv from the lock

.PHONY: demo
demo: $(READY) ## Run a server, register a pool, and watch it
	$(BIN)/python examples/demo.py

.PHONY: test
test: $(READY) ## Run the tests (under five minutes)
	$(BIN)/pytest -q -n 2 -m "not slow"

.PHONY: test-slow
test-slow: $(READY) ## Run the tests that take minutes (Kubernetes: with KUBEBUILDER_ASSETS)
	$(BIN)/pytest -q -n 2 -m slow

.PHONY: fuzz
fuzz: $(READY) ## Try hostile input, ever new, HOSTILE_SECONDS (20) for each of its tests
	HOSTILE_SECONDS=$${HOSTILE_SECONDS:-20} $(BIN)/pytest -q -n 2 tests/hostile

# What is left out is drawn, or all: SEED=7 SECONDS=40 SCENARIO="memory dynamodb"
.PHONY: chaos
chaos: $(READY) ## Break a whole system by a seed, and judge it: SEED=, SECONDS=, SCENARIO=
	PYTHONPATH=tests $(BIN)/python -m chaos $(if $(SEED),--seed $(SEED)) $(if $(SECONDS),--seconds $(SECONDS)) \
	  $(if $(SCENARIO),--scenario $(SCENARIO))

.PHONY: check
check: $(READY) ## Check style, types, layers, protocol and what is generated
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	MYPYPATH=bench $(BIN)/mypy bench
	$(BIN)/lint-imports
	$(BIN)/buf lint
	$(BIN)/buf format --diff --exit-code
	.ci/check-breaking $(BASE)
	.ci/check-generated

.PHONY: generate
generate: $(READY) ## Generate stubs and references from protos/ and the OpenAPI document
	.ci/generate

.PHONY: format
format: $(READY) ## Format code and protocol
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/buf format --write

.PHONY: bench
bench: $(READY) ## Measure, and write docs/performance.md
	$(BIN)/python bench/run.py

.PHONY: screenshots
screenshots: $(READY) ## Make the pictures of docs/images (needs chromium)
	PYTHONPATH=tests $(BIN)/python -m support.screenshots

.PHONY: lock
lock: ## Resolve all versions anew (needs uv)
	uv pip compile pyproject.toml --extra server --extra kubernetes --extra dynamodb --extra otel --group dev --universal \
	  --python-version 3.11 --generate-hashes --no-header --quiet -o requirements.lock
	uv pip compile pyproject.toml --extra server --extra kubernetes --extra dynamodb --extra otel --constraints requirements.lock --universal \
	  --python-version 3.11 --generate-hashes --no-header --quiet -o requirements-server.lock
	echo hatchling | uv pip compile - --constraints requirements.lock --universal \
	  --python-version 3.11 --generate-hashes --no-header --quiet -o requirements-build.lock

.PHONY: clean
clean: ## Remove what the tasks made
	rm -rf .venv dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .hostile
