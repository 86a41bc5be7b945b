# `make demo` and `make test` work from a fresh clone: they set up what they need first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Which build of torch is installed depends on the machine, so its hash is not pinned.
UNLOCKED := ^torch==
# Two test processes with one thread each: threads of both would fight over the same cores.
TEST_ENV := OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false

.PHONY: help setup lock demo test check format bench browser clean
.DEFAULT_GOAL := help

help:  ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

setup: $(VENV)/ready  ## make .venv with the tested packages

$(VENV)/ready: pyproject.toml constraints.txt requirements.lock
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes --no-deps -r requirements.lock
	$(BIN)/python -m pip install --quiet --no-build-isolation -c constraints.txt -e '.[all,dev]'
	@touch $@

lock:  ## write the hashes of the packages in constraints.txt to requirements.lock
	@set -e; folder=$$(mktemp -d); trap 'rm -rf "$$folder"' EXIT; \
	$(PYTHON) -m venv "$$folder"; \
	"$$folder/bin/python" -m pip install --quiet uv; \
	grep -v '$(UNLOCKED)' constraints.txt | "$$folder/bin/uv" pip compile --quiet --no-config --universal --no-deps \
	  --python-version 3.11 --no-annotate --generate-hashes --custom-compile-command 'make lock' \
	  --output-file "$$folder/lock" -; \
	cp "$$folder/lock" requirements.lock

demo: setup  ## translate, train a translator of dates in about a minute, and draw what attends to what
	$(BIN)/regard translate "we are eating bread" "The child picked up a small stone." "Where were you last night?"
	$(BIN)/regard look "The child picked up a small stone."
	$(BIN)/regard train translate/dates
	$(BIN)/regard translate --model runs/dates "Monday, August 3, 1992" "Friday, May 7, 2027" "3 weeks"
	$(BIN)/regard look --model runs/dates "Monday, August 3, 1992" -o runs/dates.png
	@echo "Now open it up: $(BIN)/regard explore --model runs/dates 'Monday, August 3, 1992', or $(BIN)/regard explore"

test: setup  ## run the tests
	$(TEST_ENV) $(BIN)/python -m pytest -n 2 --dist loadscope

check: node_modules/ready setup  ## format, lint, types (Python and JavaScript), import contracts, words; needs npm
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/words.py
	node_modules/.bin/tsc

node_modules/ready: package.json package-lock.json
	@command -v npm >/dev/null || { echo "make check needs npm (Node.js 20 or later) for the JavaScript type check; install it and run make check again" >&2; exit 1; }
	@npm ci --silent --no-audit --no-fund || { echo "npm ci failed; run npm ci to see why" >&2; exit 1; }
	@touch $@

format: setup  ## put the code into shape
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: setup  ## measure speed against peers, side by side
	$(BIN)/python benchmarks/train_step.py
	$(BIN)/python benchmarks/train_step.py --size tiny
	$(BIN)/python benchmarks/translate.py
	$(BIN)/python benchmarks/generate.py
	$(BIN)/python benchmarks/shell.py

browser:  ## install Chromium for the browser tests, where apt is there
	@if command -v chromium >/dev/null; then echo "Chromium is there: $$(command -v chromium)"; \
	elif ! command -v apt-get >/dev/null; then echo "No apt-get here; install Chromium by hand for the browser tests."; \
	else SUDO=$$([ "$$(id -u)" = 0 ] || echo sudo); \
	$$SUDO apt-get update -qq && $$SUDO env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium >/dev/null; fi

clean:  ## remove what the other targets made
	rm -rf $(VENV) node_modules dist runs .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
