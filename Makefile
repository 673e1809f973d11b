# Every target does its own set-up; PYTHON may name any Python from 3.11 on.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
INTEROP := .venvs
DEPLOY := $(INTEROP)/deploy
INTEROP_STAMPS := $(patsubst %,$(INTEROP)/%/.installed,oxp universal-tool-client universal-tool-server)
PIP_QUIET := --quiet --disable-pip-version-check --no-input

.PHONY: help demo test test-deploy check bench lint interop clean

help:
	@echo "make demo   run the demonstration fleet behind Toolgate and print curl lines"
	@echo "make test   lint, type-check and run every test"
	@echo "make test-deploy  build and run the image, render the chart, try alerts, dashboard and compose file"
	@echo "make bench  measure the cost of a call"
	@echo "make check  lint and type-check only"

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install $(PIP_QUIET) --editable '.[dev]'
	@touch $@

demo: $(STAMP)
	$(BIN)/toolgate demo

# Much of the time is spent waiting, or in processes that start: two workers fill the waits, and what is compiled is
# kept even where the environment says otherwise.
test: check $(INTEROP_STAMPS)
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --numprocesses 2 --dist worksteal

check: $(STAMP)
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

# Apart from the others because what it needs is large, and not all of it to be had by pip: what is skipped says why.
test-deploy: $(DEPLOY)/.installed
	$(DEPLOY)/bin/python -m pytest tests/deploy -rs

$(DEPLOY)/.installed: pyproject.toml tests/deploy/requirements.txt
	$(PYTHON) -m venv --clear $(@D)
	$(@D)/bin/python -m pip install $(PIP_QUIET) --editable '.[dev]' --requirement tests/deploy/requirements.txt
	@touch $@

bench: $(STAMP)
	$(BIN)/python -m tests.bench

# Programs nobody here wrote, each in an environment of its own; a changed pin builds it anew.
interop: $(INTEROP_STAMPS)

$(INTEROP)/%/.installed: tests/interop/requirements/%.txt
	$(PYTHON) -m venv --clear $(@D)
	$(@D)/bin/python -m pip install $(PIP_QUIET) --requirement $<
	@touch $@

clean:
	rm -rf $(VENV) $(INTEROP) dist build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
