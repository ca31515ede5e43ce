# `make help` lists the targets. VENV and PIP_ARGS may be set: make quickstart VENV=/tmp/env
VENV ?= .venv
PIP_ARGS ?=
PYTHON ?= python3
BIN := $(VENV)/bin
FOLDERS := framework components launchers recipes
SOURCES := $(FOLDERS) tests benchmarks docs

.DEFAULT_GOAL := help
.PHONY: help setup quickstart test test-all lint fmt type bench docs schema

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

$(VENV)/.ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys, venv, ensurepip; assert sys.version_info >= (3, 11)' \
	  || { echo 'needs Python 3.11 to 3.13 with venv (Debian, Ubuntu: apt install python3-venv)'; exit 1; }
	@echo 'installing into $(VENV): about 2 GB, some minutes'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet -e './[dev,docs]' -c constraints.txt $(PIP_ARGS)
	@touch $@

setup: $(VENV)/.ready ## make the environment in .venv

quickstart: $(VENV)/.ready ## train on handwritten digits with two workers
	$(BIN)/launch recipes/quickstart.yaml

test: $(VENV)/.ready ## the default tests (minutes), in two processes
	$(BIN)/python -m pytest -q -n 2 --dist loadgroup

test-all: $(VENV)/.ready ## all tests, the slow ones too
	$(BIN)/python -m pytest -q -m ''

lint: $(VENV)/.ready ## style, formatting, sizes
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)

fmt: $(VENV)/.ready ## format the code
	$(BIN)/ruff check --fix-only --quiet $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

# Type checkers do not see an editable install with mapped folders: a link folder shows them the import name.
type: $(VENV)/.ready ## types: strict in framework/
	@mkdir -p .typing/raycipe
	@for folder in $(FOLDERS); do ln -sfn ../../$$folder .typing/raycipe/$$folder; done
	MYPYPATH=.typing $(BIN)/mypy --namespace-packages --explicit-package-bases -p raycipe

bench: $(VENV)/.ready ## measure against peers and write the tables into docs/benchmarks.md
	$(PYTHON) -m venv .peers
	.peers/bin/pip install --quiet hydra-core lightning 'jsonargparse[signatures]' doubleml econml -c constraints-peers.txt $(PIP_ARGS)
	$(BIN)/python benchmarks/run_all.py --peers .peers/bin/python

docs: $(VENV)/.ready ## build the book into docs/_build
	$(BIN)/sphinx-build -q -W --keep-going docs docs/_build

schema: $(VENV)/.ready ## write framework/schema.json from the components
	$(BIN)/python -m raycipe.framework.schema --write
