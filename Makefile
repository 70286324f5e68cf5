# Each target does all its own set-up. It needs Python 3.11 or later, make and the package registries, but not Node.
SHELL := /bin/bash
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= $(shell command -v python3.11 || command -v python3)
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

BUNDLE := workbench_ext/labextension
FRONTEND := $(shell find workbench_ext/frontend -type f -not -path '*/node_modules/*' -not -path '*/.yarn/*' \
              -not -path '*/lib/*' -not -name '*.tsbuildinfo')
PACKAGING := pyproject.toml constraints.txt install.json kernels/workbench/kernel.json \
             workbench_ext/jupyter-config/server-config/workbench_ext.json $(FRONTEND)

# The bundle goes when any of its sources is newer: a stale one would be installed silently. What is installed is compiled
# on all cores: pip does it on one, a third of its time. A package may hold files that are not for this Python.
define install
	@if [ -e $(BUNDLE) ] && [ -n "$$(find $(FRONTEND) -newer $(BUNDLE)/package.json -print -quit 2>&1)" ]; then rm -rf $(BUNDLE); fi
	@echo "Installing Workbench$(1) into $(VENV) (the first time takes some minutes)"
	@$(INSTALL) --no-compile -e '.$(1)'
	@$(BIN)/python -m compileall -qq -j 0 $$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))') || true
	@touch $@
endef

.PHONY: help demo demo-faults lab soak test test-fast coverage test-main test-ext test-jest test-ui browser chromium bench bench-peers docs pictures notebooks lint lint-panel format clean

help:
	@echo 'make demo    run the quickstart notebook: a Hyperband search on real data'
	@echo 'make demo-faults  the story of faults in a browser: kills, a closed tab, and the same result bit for bit'
	@echo 'make lab     JupyterLab with Workbench, in notebooks/'
	@echo 'make test-fast  the tests that need no engine, in two minutes'
	@echo 'make coverage  the same tests, and how much of each room they run'
	@echo 'make test    all tests (a browser is installed where there is none)'
	@echo 'make soak    over an hour: searches under faults against calm ones, every loop killed after each step, whole days of searches'
	@echo 'make docs    the guide, in build/docs'
	@echo 'make pictures  take the pictures of the README and the guide in a real JupyterLab'
	@echo 'make notebooks  execute the notebooks again for the guide'
	@echo 'make lint    ruff and mypy, and ESLint and Prettier for the panel'
	@echo 'make bench   the benchmarks, one JSON object each'
	@echo 'make bench-peers  Workbench beside Ray Tune, Optuna, dask-ml, Syne Tune and bare Dask: a table, in a quarter of an hour'
	@echo 'make clean   remove what was built, and the virtual environment'

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "No python3 found. Install Python 3.11, or name one: make PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "$(PYTHON) is older than 3.11. Name a newer one: make PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.quickstart: $(PACKAGING) | $(BIN)/python
	$(call install,[quickstart])

$(VENV)/.develop: $(PACKAGING) | $(BIN)/python
	$(call install,[test$(comma)lint])
	@touch $(VENV)/.quickstart

comma := ,
SOAK_MINUTES ?= 40

demo: $(VENV)/.quickstart
	@$(BIN)/python notebooks/demo.py

demo-faults: $(VENV)/.develop browser
	@$(BIN)/python notebooks/demo_faults.py

lab: $(VENV)/.quickstart
	@cd notebooks && ../$(BIN)/jupyter lab $$([ "$$(id -u)" != 0 ] || echo --allow-root) quickstart.ipynb

test:
	@$(MAKE) --no-print-directory -j 2 $(VENV)/.develop chromium
	@$(MAKE) --no-print-directory browser
	@status=0; for part in test-main test-ext test-jest test-ui; do $(MAKE) --no-print-directory $$part || status=1; done; exit $$status

# What needs neither an engine nor a browser.
FAST := tests/search tests/store tests/status tests/compare tests/test_facts.py tests/test_records.py tests/test_space.py tests/test_standing.py \
  tests/test_floors.py tests/test_docs.py -n 2 -m 'not slow' --deselect tests/status/test_same_everywhere.py

test-fast: $(VENV)/.develop
	@$(compile) && $(BIN)/pytest $(FAST)

# `.venv/bin/coverage report -m` then names the lines of each file.
coverage: $(VENV)/.develop
	@$(BIN)/pytest $(FAST) --cov --cov-report=
	@$(BIN)/python tests/covered.py

# The tests start thousands of processes. Where Python may not write what it has compiled (PYTHONDONTWRITEBYTECODE), each
# would compile our code again: a third of all processor time.
compile := $(BIN)/python -m compileall -q src workbench_ext/server

# Three runs: the event loop of pytest-jupyter (tests/ext) breaks Playwright's (tests/ui), and ours.
# In their order: files with few tests would come last otherwise, and some of these take a minute and a half. Three at a
# time: tests with engines wait for a third of their time, and two leave two cores idle as long.
test-main: $(VENV)/.develop
	@$(compile) && $(BIN)/pytest tests -n 3 --dist loadfile --no-loadscope-reorder --instafail

# Two at a time: they wait for half of their time, for a server, a kernel or a browser.
test-ext: $(VENV)/.develop
	@$(compile) && $(BIN)/pytest tests/ext -n 2 --dist loadfile --no-loadscope-reorder --instafail

# In the panel's folder, with jlpm. Where there is no Node, the one that Playwright brings does.
define in_panel
PATH="$(abspath $(BIN)):$$PATH"; \
	command -v node >/dev/null || PATH="$$($(BIN)/python -c 'import pathlib, playwright; print(pathlib.Path(playwright.__file__).parent / "driver")'):$$PATH"; \
	export PATH; cd workbench_ext/frontend
endef

# Those that the lock names: what was installed before it changed lacks some.
packages := { [ node_modules/.yarn-state.yml -nt yarn.lock ] || jlpm install --immutable; }

# The panel's models, without a browser.
test-jest: $(VENV)/.develop
	@$(in_panel); $(packages) && jlpm test

test-ui: $(VENV)/.develop
	@if compgen -G 'tests/ui/test_*.py' >/dev/null; then $(compile) && $(BIN)/pytest tests/ui -n 2 --dist loadfile --no-loadscope-reorder --instafail; fi

soak: $(VENV)/.develop
	@$(BIN)/pytest tests/soak -s
	@THOROUGH=1 $(BIN)/pytest $$(grep -rl --include='test_*.py' IS_THOROUGH tests) tests/trial/test_resume_*.py tests/frameworks
	@$(BIN)/python -m benchmarks soak --minutes $(SOAK_MINUTES)

# Debian's Chromium where we may install it; otherwise the one that Playwright brings.
browser: $(VENV)/.develop chromium
	@command -v chromium >/dev/null || $(BIN)/playwright install chromium

chromium:
	@if ! command -v chromium >/dev/null && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  { apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends chromium; } >/dev/null || true; fi

pictures: $(VENV)/.develop browser
	@$(BIN)/python notebooks/pictures.py docs/pictures

lint: $(VENV)/.develop
	@status=0; $(BIN)/ruff check . || status=1; $(BIN)/ruff format --check . || status=1; $(BIN)/mypy || status=1; \
	$(MAKE) --no-print-directory lint-panel || status=1; exit $$status

lint-panel: $(VENV)/.develop
	@$(in_panel); if $(packages); then jlpm lint; else echo 'The panel is not checked: its packages cannot be installed.' >&2; fi

format: $(VENV)/.develop
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .
	@$(in_panel); $(packages) && jlpm format

bench: $(VENV)/.develop
	@for name in overhead stop report core start store strict; do $(BIN)/python -m benchmarks $$name --json || exit 1; done

# A warning fails, such as a broken link inside. Nothing is fetched.
docs: $(VENV)/.develop
	@$(BIN)/sphinx-build -q -W --keep-going -b html docs build/docs
	@echo 'The guide: build/docs/index.html'

# `make notebooks NAMES=quickstart` executes one.
notebooks: $(VENV)/.develop
	@$(BIN)/python docs/_site/notebooks.py $(NAMES)

# The peers have environments of their own; dask-ml another one, since it needs an older Dask than ours.
PEERS := .venv-peers
PEERS_DASK_ML := .venv-peers-dask-ml
PIP_PEERS := -m pip install --quiet --disable-pip-version-check

# One that cannot be installed is a dash in the table: after a failure each is tried alone.
define install_peers
	@echo "Installing the peers of $(1) into $(2)"
	@[ -e $(2)/bin/python ] || $(PYTHON) -m venv $(2)
	@$(2)/bin/python $(PIP_PEERS) -c $(3) -r $(1) || grep -v '^#' $(1) | while read -r one; do \
	  $(2)/bin/python $(PIP_PEERS) -c $(3) "$$one" </dev/null || true; done
	@touch $(2)/.installed
endef

$(PEERS)/.installed: benchmarks/peers/requirements.txt constraints.txt | $(BIN)/python
	$(call install_peers,$<,$(PEERS),constraints.txt)

$(PEERS_DASK_ML)/.installed: benchmarks/peers/requirements-dask-ml.txt constraints.txt | $(BIN)/python
	@mkdir -p $(PEERS_DASK_ML) && grep -v -E '^(dask|distributed)==' constraints.txt > $(PEERS_DASK_ML)/constraints.txt
	$(call install_peers,$<,$(PEERS_DASK_ML),$(PEERS_DASK_ML)/constraints.txt)

bench-peers: $(VENV)/.develop $(PEERS)/.installed $(PEERS_DASK_ML)/.installed
	@$(BIN)/python -m benchmarks peers

clean:
	rm -rf $(VENV) $(PEERS) $(PEERS_DASK_ML) $(BUNDLE) workbench_ext/frontend/node_modules workbench_ext/frontend/lib workbench_ext/frontend/.yarn \
	  workbench_ext/frontend/tsconfig.tsbuildinfo build dist .coverage .pytest_cache .mypy_cache .ruff_cache .hypothesis test-results
