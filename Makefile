# Each target sets itself up on a fresh machine: Python >= 3.11 and the package registry are enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 2
PROFILE ?= full
export SOURCE_DATE_EPOCH = 0
# workers that share the cores: linear algebra with threads of its own would wait for itself
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1
# what Python makes of its sources is kept, whatever the user's wish, but beside none of
# them: hundreds of processes start in a test, and each would read every library anew
RUN := $(ONE_THREAD) PYTHONDONTWRITEBYTECODE= PYTHONPYCACHEPREFIX=$(CURDIR)/$(VENV)/pycache

# uv where it is installed, otherwise venv and pip; neither compiles what may never be imported
INSTALL = if command -v uv >/dev/null 2>&1; then uv pip install -q --python $(BIN)/python $(1); \
          else $(BIN)/python -m pip install -q --no-compile --disable-pip-version-check $(1); fi

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:  # half an environment would pass for a whole one the next time
.PHONY: help demo test test-long test-data oldest mutate docs course lab check refresh reproduce bench grid

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' Makefile | sed -E 's/^([a-z-]+):[^#]*## /\1\t/' | expand -t 12

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "privglasso needs Python >= 3.11; name one with: make PYTHON=/path/to/python3.11"; exit 1; }
	@if command -v uv >/dev/null 2>&1; then uv venv -q --python $(PYTHON) $(VENV); else $(PYTHON) -m venv $(VENV); fi

$(VENV)/.core: pyproject.toml | $(BIN)/python
	@echo "installing privglasso"
	@$(call INSTALL,-e .)
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	@echo "installing privglasso with what its tests and documentation need"
	@$(call INSTALL,-e '.[dev]')
	@touch $@ $(VENV)/.core

demo: $(VENV)/.core  ## publish, recover and compare; DATA=sachs for the real cell signalling data
	$(BIN)/privglasso demo --force $(if $(DATA),--data $(DATA))

test: $(VENV)/.dev  ## run every chapter's proofs, compare what it prints with what it holds, run the tests
	$(RUN) $(BIN)/python docs/stale.py --workers $(WORKERS)
	$(RUN) $(BIN)/pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder -m "not long" --durations=10 --durations-min=5

test-long: $(VENV)/.dev  ## the checks that take longest: many repeats, killed processes, large tables
	$(RUN) $(BIN)/python docs/stale.py --workers $(WORKERS) --long
	$(RUN) $(BIN)/pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder -m long

test-data: $(VENV)/.dev  ## of these what looks at downloaded data, in PRIVGLASSO_DATA or the user's cache
	$(RUN) $(BIN)/python docs/stale.py --workers $(WORKERS) --long $$($(BIN)/python docs/data_chapters.py)
	$(RUN) $(BIN)/pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder -m data

$(VENV)/.oldest: pyproject.toml tests/oldest.py | $(BIN)/python
	@$(BIN)/python tests/oldest.py > $(VENV)/oldest.txt
	@$(call INSTALL,-e . -r $(VENV)/oldest.txt)
	@touch $@

oldest:  ## test what publishes and recovers with the oldest libraries that pyproject.toml allows, in .venv-oldest
	@$(MAKE) VENV=.venv-oldest .venv-oldest/.oldest
	$(ONE_THREAD) .venv-oldest/bin/pytest -n $(WORKERS) --dist loadfile tests/base tests/privacy tests/publish tests/recover tests/desk

mutate: $(VENV)/.dev  ## alter one fact at a time in the proofs, list what no check notices; SHARE=.1 for a part
	$(RUN) $(BIN)/python tests/mutate.py --elsewhere $(if $(SHARE),--share $(SHARE)) $(ONLY)

docs: $(VENV)/.dev  ## build the book as a site in _docs/html; look at it where there is a Chromium
	$(BIN)/python docs/build.py
	$(BIN)/python docs/check.py
	$(BIN)/python docs/browse.py
	$(BIN)/pytest tests/test_site.py

course: $(VENV)/.dev  ## the course's sheets, without solutions, and its slides in _docs/course
	$(BIN)/python docs/course.py

lab: $(VENV)/.dev  ## read and rerun the book in JupyterLab
	$(BIN)/jupyter lab nbs

check: $(VENV)/.dev  ## lint; layers; export, outputs and README in sync
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/pytest -n $(WORKERS) tests/test_book.py

refresh: $(VENV)/.dev  ## export the package, rerun and save every chapter, make README anew
	$(BIN)/nbdev-export
	$(ONE_THREAD) $(BIN)/python docs/run.py --workers $(WORKERS)
	$(BIN)/nbdev-clean
	$(BIN)/python docs/readme.py

reproduce: $(VENV)/.core  ## run the long computations, write data/results/*.csv; ONLY=name for one, PROFILE=quick
	$(BIN)/privglasso reproduce --profile $(PROFILE) $(if $(ONLY),--only $(ONLY))

bench: $(VENV)/.dev  ## measure against the peers that are here, write data/results/benchmark_*.csv; ONLY=noise for a part
	$(BIN)/python -c 'from privglasso.experiments.measuring import bench; bench($(if $(ONLY),only="$(ONLY)"))'

grid: $(BIN)/python  ## simulate the embedded power grids again (about three minutes)
	@$(call INSTALL,-e '.[grid]')
	$(BIN)/python -c 'from privglasso.data_sets.grids import write_grid11, write_grid115; write_grid11(); write_grid115()'
