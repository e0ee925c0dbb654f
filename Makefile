# The front door for people who type make. Everything is the `lab` command or pytest; `make help` lists it.
TOPOLOGY ?= semisync
ENGINE ?= mariadb
PYTHON = .venv/bin/python

.DEFAULT_GOAL := help
.PHONY: help lab-up lab-down lab-status lab-doctor lab-clean test test-unit claims bench lint

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

lab-up:  ## a lab, up and proved: make lab-up TOPOLOGY=semisync ENGINE=mariadb
	@./lab up $(TOPOLOGY) --engine $(ENGINE)

lab-down:  ## the lab of TOPOLOGY, gone with its data
	@./lab down lab-$(TOPOLOGY)

lab-status:  ## which labs are up, and what replicates
	@./lab status

lab-doctor:  ## what this machine has and lacks
	@./lab doctor

lab-clean:  ## remove all labs that no running command uses, and leftovers
	@./lab clean

test: .venv/installed.txt  ## the whole suite: unit, images, lab, quick claims
	@$(PYTHON) -m pytest tests

test-unit: .venv/installed.txt  ## without Docker, in seconds
	@$(PYTHON) -m pytest tests/unit

claims: .venv/installed.txt  ## the experiments as regression checks, on all their engines
	@$(PYTHON) -m pytest tests/claims --engine all

bench: .venv/installed.txt  ## the lab's own figures, as ratios from one run, into runs/
	@$(PYTHON) -m harness.bench

lint: .venv/installed.txt  ## ruff, import-linter, shellcheck
	@.venv/bin/ruff check . && .venv/bin/ruff format --check . && .venv/bin/lint-imports && .venv/bin/shellcheck lab .ci/run harness/world/*.sh images/base/make images/database/docker-entrypoint.sh images/database/lab-health

# Made by the launcher, from the hash-locked list.
.venv/installed.txt: harness/requirements.txt
	@./lab --help >/dev/null
