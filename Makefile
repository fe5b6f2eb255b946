# Every target works in a fresh clone: what it needs is installed first.

PYTHON ?= python3
UV_VERSION := 0.13.9
LOCK_FLAGS := --universal --python-version 3.11 --generate-hashes --upgrade --no-header
BIN := .venv/bin
# Tests wait for processes more than they compute, so there are more workers than cores.
WORKERS ?= 6
# Files in the order that tests/support/shared.py gives them
ORDER := --dist loadfile --no-loadscope-reorder
STAMP := .venv/.installed
LOCKS := requirements/build.lock requirements/dev.lock
# Modules are compiled once, not by each of the hundreds of processes that tests start
export PYTHONDONTWRITEBYTECODE =
SCRIPTS := $(filter-out %.py %.toml,$(wildcard .ci/*)) $(wildcard .github/actions/*.sh .github/actions/*/*.sh examples/*/*.sh)

.DEFAULT_GOAL := help
.PHONY: help install demo orders test chaos soak nightly mutants check format wheel bench lock clean java jars chromium prometheus mariadb

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(STAMP) ## make .venv with the locked dependencies and this project

$(STAMP): pyproject.toml $(LOCKS) .ci/venv
	@PYTHON=$(PYTHON) .ci/venv
	$(BIN)/python -m pip install -q --require-hashes -r requirements/build.lock
	$(BIN)/python -m pip install -q --require-hashes --no-build-isolation --use-pep517 -r requirements/dev.lock
	$(BIN)/python -m pip install -q --no-deps --no-build-isolation -e .
	@touch $@

java:
	@.ci/java

jars: install java
	@$(BIN)/python -m connect_runtime.kafka.jars connect >/dev/null
	-@$(BIN)/python -m connect_runtime.make_class_archives

demo: jars ## run the example from files to records, on this machine
	$(BIN)/python examples/demo/run.py $(ARGS)

orders: jars ## run the example from PostgreSQL to PostgreSQL and Iceberg, with Java connectors; ARGS=--cluster
	$(BIN)/python examples/orders/run.py $(ARGS)

chromium:
	@.ci/chromium

mariadb:
	@.ci/mariadb

prometheus:
	@.ci/prometheus

test: jars chromium ## run the tests
	-@PYTHONPATH=tests $(BIN)/python -m support.oracle
	$(BIN)/python -m pytest -m "not long" -n $(WORKERS) $(ORDER) $(ARGS)

chaos: jars prometheus mariadb ## run all tests of faults and outages, which takes long
	$(BIN)/python -m pytest -m "chaos or long" $(ARGS)

soak: jars ## half an hour of random faults under load; ARGS="--minutes 8 --cluster"
	PYTHONPATH=tests $(BIN)/python -m support.soak $(ARGS)

nightly: jars ## try the property tests with random seeds and 40 times as many examples
	$(BIN)/python -m pytest -m hypothesis --hypothesis-profile=nightly -n logical $(ARGS)

mutants: jars ## make known defects one by one, each of which a test must notice
	PYTHONPATH=tests $(BIN)/python -m support.mutants $(ARGS)

check: install java ## check format, lint, types, import rules, vocabulary, scripts and Java
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python .ci/vocabulary.py
	$(BIN)/python -m connect_runtime.engine.engine_jar check
	@for script in $(SCRIPTS); do bash -n $$script || exit 1; done
	@.ci/actionlint

format: install ## format the code and sort its imports
	$(BIN)/ruff check --fix-only --select I .
	$(BIN)/ruff format .

wheel: install java ## build the wheel, with the engine for Java plugins compiled
	@$(BIN)/python -m connect_runtime.engine.engine_jar package
	$(BIN)/python -m pip wheel -q --no-deps --no-build-isolation -w dist .

bench: jars ## measure against Apache Kafka Connect on this machine
	@$(BIN)/python -m connect_runtime.kafka.jars tools >/dev/null
	PYTHONPATH=tests $(BIN)/python -m benchmarks $(ARGS)

lock: ## resolve the dependencies again into requirements/*.lock
	$(PYTHON) -m venv build/lock
	build/lock/bin/python -m pip install -q uv==$(UV_VERSION)
	build/lock/bin/uv pip compile -q $(LOCK_FLAGS) -o requirements/build.lock requirements/build.in
	build/lock/bin/uv pip compile -q $(LOCK_FLAGS) --extra runtime --extra otel --extra dev -o requirements/dev.lock pyproject.toml
	build/lock/bin/uv pip compile -q $(LOCK_FLAGS) -c requirements/dev.lock -o requirements/cli.lock pyproject.toml

clean: ## remove .venv, caches and build results
	rm -rf .venv build dist .pytest_cache .hypothesis .mypy_cache .ruff_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
