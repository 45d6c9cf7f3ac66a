# The one door: everything a person or CI does with this project. `make` alone lists it.

CONFIG ?= config/study.yaml
CORES ?= 4
PYTHON ?=
MINUTES ?=

BIN := .venv/bin
REPORT := report/gpu_report.pdf
ENVIRONMENT := .venv/stamps/package
TOOLS := $(ENVIRONMENT) .venv/stamps/dev
# Unit tests in under a minute on two cores.
QUICK := tests/unit/tables \
	$(filter-out $(addprefix %/test_,$(addsuffix .py,catalogue check_machines cli coverage guarding hostile_records \
	machine project_files run_command scripts terminal trace_command)),$(wildcard tests/unit/test_*.py \
	$(addsuffix /test_*.py,$(addprefix tests/unit/,commands printing records storage study)) tests/unit/bundles/test_shown_machines.py))
CHECKED := src tests scripts $(wildcard benchmarks notebooks)

# The rules of the workflow call gpu-report by name.
export PATH := $(CURDIR)/$(BIN):$(PATH)
# Else each build of the site prints how long its theme is maintained: until May 2027.
export NO_MKDOCS_2_WARNING := 1

# If the home folder is not writable, as in a container that runs as another user, Snakemake and LuaTeX fail because they
# cannot write their caches, and Matplotlib searches for the fonts again in every process.
ifneq ($(HOME),)
ifeq ($(shell cache="$$HOME/.cache"; test -e "$$cache" || cache=$$HOME; test -w "$$cache" || echo unwritable),unwritable)
export XDG_CACHE_HOME ?= $(CURDIR)/.venv/cache
export MPLCONFIGDIR ?= $(CURDIR)/.venv/cache/matplotlib
export TEXMFVAR ?= $(CURDIR)/.venv/cache/texmf-var
export PIP_NO_CACHE_DIR ?= 1
endif
endif

CHECKS := check-ruff check-format check-types check-layers check-snakefmt check-workflow check-spelling check-docs check-size

.DEFAULT_GOAL := help
.NOTPARALLEL: # what is missing is found before anything is installed
.PHONY: help report html docs test test-all golden test-cluster quick check fix bench readme machines lock clean $(CHECKS) tex test-system another-python

help: ## list what can be asked for
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "CONFIG=config/ci.yaml   another study      (now: $(CONFIG))"
	@echo "CORES=2                 cores to use       (now: $(CORES))"
	@echo "MINUTES=10              time budget for measuring, in minutes"
	@echo "PYTHON=/path/to/python  another Python; its own torch is kept"

report: tex $(ENVIRONMENT) ## measure what is missing on this machine and make report/gpu_report.pdf
	@$(BIN)/gpu-report plan --configfile $(CONFIG)$(if $(MINUTES), --minutes $(MINUTES))
	@$(BIN)/snakemake --cores $(CORES) --configfile $(CONFIG)$(if $(MINUTES), --config minutes=$(MINUTES))
	@echo "$(CURDIR)/report/gpu_report.pdf"
	@cat report/headline.txt

html: $(ENVIRONMENT) ## measure what is missing and make report/gpu_report.html, the report for a browser; needs no TeX
	@$(BIN)/gpu-report plan --configfile $(CONFIG)$(if $(MINUTES), --minutes $(MINUTES))
	@$(BIN)/snakemake --cores $(CORES) --configfile $(CONFIG)$(if $(MINUTES), --config minutes=$(MINUTES)) -- report/gpu_report.html
	@echo "$(CURDIR)/report/gpu_report.html"

docs: $(TOOLS) ## serve the documentation site at http://127.0.0.1:8000, built again after each change
	@$(BIN)/mkdocs serve

test: test-system $(TOOLS) ## run the tests that each change needs, with a report built on the CPU (8 minutes on 2 cores)
	@$(BIN)/pytest --numprocesses auto --dist worksteal -m "not slow" $(TESTS)

test-all: test-system $(TOOLS) ## run every test, with 200 examples of each property instead of 25 (up to an hour)
	@$(BIN)/pytest --numprocesses auto --dist worksteal --hypothesis-profile thorough $(TESTS)

golden: $(TOOLS) ## write tests/golden again: what the published bundles, a synthetic study and recorded traces come to
	@$(BIN)/python -m tests.golden.artefacts

test-cluster: $(TOOLS) ## run the tests of a cluster on a Slurm of two nodes, which this starts here (root on Debian or Ubuntu)
	@tests/cluster/slurm.sh up && $(BIN)/pytest --numprocesses 2 tests/cluster; status=$$?; tests/cluster/slurm.sh down; exit $$status

quick: $(TOOLS) ## run the unit tests that together take less than a minute
	@$(BIN)/pytest --numprocesses auto --dist worksteal --quiet $(QUICK)

check: $(TOOLS) ## run every checker: ruff, mypy, import-linter, snakefmt, snakemake --lint, codespell, mkdocs, size of src
	@$(MAKE) --no-print-directory --keep-going $(CHECKS)

check-ruff:
	$(BIN)/ruff check --quiet $(CHECKED)
check-format:
	$(BIN)/ruff format --check --quiet $(CHECKED)
check-types:
	$(BIN)/mypy
check-layers:
	@echo "$(BIN)/lint-imports"
	@$(BIN)/lint-imports >.venv/lint-imports.log || { cat .venv/lint-imports.log; exit 1; }
check-snakefmt:
	$(BIN)/snakefmt --check Snakefile src/gpu_report/workflow
check-workflow:
	$(BIN)/snakemake --lint
check-spelling:
	$(BIN)/codespell
# With --quiet it would count no warnings.
check-docs: $(TOOLS)
	$(BIN)/mkdocs build --strict
check-size:
	$(BIN)/python scripts/size.py

fix: $(TOOLS) ## let the checkers mend what they can
	$(BIN)/ruff check --fix $(CHECKED)
	$(BIN)/ruff format $(CHECKED)
	$(BIN)/snakefmt Snakefile src/gpu_report/workflow
	$(BIN)/codespell --write-changes

bench: $(ENVIRONMENT) ## time the tool itself
	@$(BIN)/python -m benchmarks.pipeline --configfile $(CONFIG)

readme: $(ENVIRONMENT) ## write README.md's table of numbers from the published bundle
	@$(BIN)/python scripts/headline_table.py

machines: $(TOOLS) ## write report/machines.html from the published bundles, and recompute its numbers from their records
	@$(BIN)/gpu-report machines --html report/machines.html
	@$(BIN)/python scripts/check_machines.py report/machines.html

lock: $(TOOLS) ## write locks/ from pyproject.toml (UPGRADE=--upgrade takes the newest of all)
	@scripts/locks.sh $(UPGRADE)

clean: ## remove the environment and everything built; measurements in results/ stay
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache build dist
	git clean -fdXq report

tex:
	@scripts/system_packages.sh tex

test-system:
	@scripts/system_packages.sh tex poppler hosts compiler

# .venv, in steps that each run again only when what they follow from has changed.
ifneq ($(PYTHON),)
ifneq ($(PYTHON),$(shell cat .venv/asked-for 2>/dev/null))
.venv/stamps/created: another-python
endif
endif

.venv/stamps/created:
	@scripts/environment.sh create $(PYTHON)
	@mkdir -p $(@D)
	@echo "$(PYTHON)" >.venv/asked-for
	@touch $@

.venv/stamps/base: locks/base.lock .venv/stamps/created
	@scripts/environment.sh install base
	@touch $@

.venv/stamps/torch: locks/torch.lock .venv/stamps/base
	@scripts/environment.sh torch
	@touch $@

.venv/stamps/package: pyproject.toml .venv/stamps/torch
	@scripts/environment.sh package
	@touch $@

.venv/stamps/dev: locks/dev.lock .venv/stamps/torch
	@scripts/environment.sh install dev
	@touch $@
