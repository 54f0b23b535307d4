# make run   starts Eventr on this machine.    make test   runs all checks.    make help   lists all targets.

SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
# The Python that this is tested with, else a newer one; of each the distribution's first. What is compiled on the
# spot (pyenv) lacks the profiles of running programs that distributions compile with, and needs a third more time.
# PYTHON=… overrides.
PYTHONS := $(foreach version,3.11 3.12 3.13 3,/usr/bin/python$(version) python$(version))
able = $(firstword $(foreach python,$(PYTHONS),$(if $(shell $(python) -c 'import sys$(1); sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo yes),$(python))))
PYTHON ?= $(eval PYTHON := $(or $(call able,$(comma) venv$(comma) ensurepip),$(call able)))$(PYTHON)
comma := ,
# Four processes on the two cores that this is checked on: a third of the time tests wait for processes
# to end, to come back or to be found lost.
JOBS ?= 4
ARGS ?=
# Seconds that make quick may take.
QUICK ?= 90
WORDS := app/web/translations
# All packages with their versions and hashes, for every Python and machine that Eventr runs on.
LOCKS := requirements
LOCKED = $(BIN)/pip install --quiet --no-build-isolation --use-pep517 --require-hashes
COMPILE = UV_CUSTOM_COMPILE_COMMAND='make lock' $(VENV)/lock/bin/uv pip compile --quiet --no-config --universal \
  --python-version 3.11 --generate-hashes --no-annotate
# The first argument of these is a sentence to translate.
SPOKEN := $(addsuffix Error,Invalid AuthRequired Forbidden NotFound Exists Conflict TooLarge RateLimited Store)
# Compiled modules are worth their space here: every process and many a test starts a Python.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help run test quick lint format types compiled bench faults soak docs words screens lock clean

help:  ## List all targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

run: $(VENV)/.run  ## Install dependencies, start Eventr and print its address; Ctrl-C stops it
	@exec $(BIN)/eventr up

test: $(VENV)/.dev chromium clients  ## Check style and types, then run all tests (ARGS=… is passed to pytest)
	@$(MAKE) --no-print-directory --jobs 2 lint types compiled
	$(BIN)/pytest -n $(JOBS) --dist worksteal $(ARGS)

quick: $(VENV)/.dev  ## Run the tests of what changed, nearest first, in at most 90 s (QUICK=n); stop at the first failure
	@$(BIN)/python -m tests.support.affected --seconds $(QUICK) --jobs $(JOBS) -- $(ARGS)

lint: $(VENV)/.dev  ## Check style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(VENV)/.dev  ## Fix style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(VENV)/.dev  ## Check types
	$(BIN)/mypy

# Each process of the tests would compile all of them by itself. What is wrong with one is told by the run.
compiled: $(VENV)/.dev
	@$(BIN)/pytest --collect-only --quiet >/dev/null 2>&1 || true

bench: $(VENV)/.dev  ## Run all benchmarks and write bench/results.json
	$(BIN)/python -m bench

faults: $(VENV)/.dev  ## Run the long fault tests and write docs/reliability.md (FAULTS_SEED=n repeats a run, ARGS=… selects tests)
	FAULTS=long $(BIN)/pytest tests/faults -p no:randomly $(ARGS)

soak: $(VENV)/.dev  ## Run everything for MINUTES=30 with FEEDS=500 and READERS=10; write docs/reliability.md
	$(BIN)/python -m bench.soak --minutes $(or $(MINUTES),30) --feeds $(or $(FEEDS),500) --readers $(or $(READERS),10) --write $(ARGS)

docs: $(VENV)/.run  ## Regenerate docs/settings.md
	$(BIN)/eventr settings --markdown > docs/settings.md

words: $(VENV)/.run  ## Extract texts to translate and update all translation catalogs
	$(BIN)/pybabel -q extract --mapping $(WORDS)/babel.cfg --keyword t --keyword tn:1,2 --keyword lazy_gettext $(foreach e,$(SPOKEN),--keyword $(e)) --no-wrap --sort-by-file \
	  --omit-header --add-location file --output $(WORDS)/messages.pot app static/js
	for code in de ru ar; do test -f $(WORDS)/$$code.po || cp $(WORDS)/messages.pot $(WORDS)/$$code.po; \
	  $(BIN)/pybabel -q update --input-file $(WORDS)/messages.pot --output-file $(WORDS)/$$code.po --locale $$code \
	    --no-wrap --no-fuzzy-matching --ignore-obsolete --omit-header; done

screens: $(VENV)/.dev chromium fonts  ## Retake the screenshots in docs/screens
	$(BIN)/python -m tests.browser.pictures

lock: $(VENV)/lock/.made  ## Lock the newest versions of all packages in requirements/ (ARGS='-P idna': only of idna)
	$(COMPILE) $(or $(ARGS),--upgrade) --all-extras --output-file $(LOCKS)/dev.txt pyproject.toml $(LOCKS)/build.in
	$(COMPILE) --constraint $(LOCKS)/dev.txt --upgrade --extra embedded --output-file $(LOCKS)/run.txt pyproject.toml
	$(COMPILE) --constraint $(LOCKS)/dev.txt --upgrade --extra s3 --output-file $(LOCKS)/server.txt pyproject.toml
	$(COMPILE) --constraint $(LOCKS)/dev.txt --upgrade --output-file $(LOCKS)/build.txt $(LOCKS)/build.in
	$(COMPILE) $(or $(ARGS),--upgrade) --output-file $(LOCKS)/lock.txt $(LOCKS)/lock.in

clean:  ## Remove the virtual environment and generated files; data in var stays
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# An environment whose Python is gone (a system upgrade) is made anew.
$(shell test -e $(VENV)/.made && ! $(BIN)/python -c '' 2>/dev/null && rm -f $(VENV)/.made $(VENV)/.run $(VENV)/.dev)

# The stamps are written last: an install that was cut off is done again. pip repairs what is there.
# What builds packages from their sources comes first, and is locked like all others: so builds fetch nothing else.
$(VENV)/.run: pyproject.toml $(LOCKS)/build.txt $(LOCKS)/run.txt | $(VENV)/.made
	$(LOCKED) -r $(LOCKS)/build.txt
	$(LOCKED) -r $(LOCKS)/run.txt
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.dev: pyproject.toml $(LOCKS)/build.txt $(LOCKS)/dev.txt | $(VENV)/.made
	$(LOCKED) -r $(LOCKS)/build.txt
	$(LOCKED) -r $(LOCKS)/dev.txt
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@ $(VENV)/.run

# The tool that locks is locked itself, and lives apart from what it locks.
$(VENV)/lock/.made: $(LOCKS)/lock.txt | $(VENV)/.made
	$(BIN)/python -m venv --clear $(VENV)/lock
	$(VENV)/lock/bin/pip install --quiet --require-hashes -r $(LOCKS)/lock.txt
	@touch $@

$(VENV)/.made:
	@test -n "$(PYTHON)" || { echo "Eventr needs Python 3.11 or newer. Install it, or run make PYTHON=/path/to/python." >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "$(PYTHON) can't create virtual environments. Install its venv package (python3-venv)." >&2; exit 1; }
	$(BIN)/python -c '' 2>/dev/null && $(PYTHON) -m venv $(VENV) || $(PYTHON) -m venv --clear $(VENV)
	@touch $@

.PHONY: chromium clients fonts
chromium clients fonts:
	@.ci/$@
