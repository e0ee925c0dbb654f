# Shortcuts for the `lab` command and pytest. `make help` lists them.
TOPOLOGY ?= semisync
ENGINE ?=
# YES=1 asks nothing before data are deleted, as without a terminal.
YES ?=
PYTHON = .venv/bin/python
# What is compiled is kept, whatever the environment says: it saves each `lab` command of a test 0.2 s.
export PYTHONDONTWRITEBYTECODE =
# No unit test reads a log.
UNIT = $(PYTHON) -m pytest -q -p no:logging -p no:cacheprovider
# pytest-xdist costs about as much CPU as a short test itself, so two plain processes share the files. Each is given the
# folder and what to leave out: pytest looks through the whole folder again for each file that it is given.
SHORT = $(UNIT) tests/unit -m "not whole"
# Adjacent tests run in one process and share costly fixtures.
WHOLE = $(UNIT) tests/unit tests/meta -m whole -n auto --dist worksteal
# Tests that mostly wait run in parallel. Tests that measure run afterwards.
BESIDE = $(PYTHON) -m tests.beside tests/images tests/lab tests/browser
ALONE = -m alone
# A red test does not hide those of the next command; whoever interrupts one (status 2) ends all.
ALSO = beside=$$?; [ $$beside -le 1 ] || exit $$beside;

.DEFAULT_GOAL := help
.PHONY: docs readability help lab-up lab-down lab-status lab-doctor lab-clean test test-all test-unit unit-a-to-i unit-j-to-z unit-whole test-images claims bench drills figures texts pictures transcript lint

help:  ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

lab-up:  ## start and verify a lab: make lab-up TOPOLOGY=semisync ENGINE=mariadb
	@./lab up $(TOPOLOGY) $(if $(ENGINE),--engine $(ENGINE))

lab-down:  ## stop the lab of TOPOLOGY and delete its data; ask first, or YES=1
	@./lab down --lab lab-$(TOPOLOGY) $(if $(YES),--yes)

lab-status:  ## show the running labs and their replication
	@./lab status

lab-doctor:  ## check prerequisites and leftovers on this host
	@./lab doctor

lab-clean:  ## remove this checkout's labs that no running command uses, and leftovers; ask first, or YES=1
	@./lab clean $(if $(YES),--yes)

test: .venv/installed.txt  ## run unit tests, images, labs and claims, without the tests marked long
	@$(MAKE) --no-print-directory --output-sync=line -j 3 test-images unit-whole
	@PYTHONPATH=harness $(BESIDE) --durations=20; $(ALSO) \
	$(PYTHON) -m pytest tests/images tests/lab tests/claims $(ALONE) --durations=20 && exit $$beside

test-all: .venv/developing.txt  ## run every test on every engine, also those marked long, and the claims that `make test` judges
	@$(UNIT) tests/unit tests/meta -n auto --dist worksteal --lab-engine all
	@PYTHONPATH=harness $(BESIDE) --lab-engine all --durations=40; $(ALSO) \
	$(PYTHON) -m pytest tests/images tests/lab $(ALONE) --lab-engine all --durations=40 && exit $$beside
	@$(PYTHON) -m pytest tests/claims --durations=20

test-unit: .venv/developing.txt  ## run the short unit tests, without Docker, in seconds
	@$(MAKE) --no-print-directory --output-sync -j 2 unit-a-to-i unit-j-to-z

unit-a-to-i: .venv/developing.txt
	@$(SHORT) --ignore-glob='*/test_[j-z]*.py'

unit-j-to-z: .venv/developing.txt
	@$(SHORT) --ignore-glob='*/test_[a-i]*.py'

# Images that are missing are built meanwhile, also while the tests' libraries are installed.
unit-whole: unit-a-to-i unit-j-to-z
	@$(WHOLE)

test-images: .venv/installed.txt  ## build the images that `make test` needs and that are missing, all at once
	@PYTHONPATH=harness $(PYTHON) -m tests.build_images

claims: .venv/developing.txt  ## judge every claim of every experiment, on every engine that it runs on
	@$(PYTHON) -m pytest tests/claims --lab-engine all --durations=20

bench: .venv/installed.txt  ## measure the lab's own performance, as ratios from one run, into runs/
	@PYTHONPATH=harness $(PYTHON) -m tests.bench

drills: .venv/installed.txt  ## run every drill of every topology, into runs/
	@PYTHONPATH=harness $(PYTHON) -m tests.all_drills

figures: .venv/developing.txt  ## write the tables and outputs of the docs that kept records make, and draw the figures
	@PYTHONPATH=harness $(PYTHON) -m tests.figures

texts: .venv/developing.txt  ## write again what is copied from the code: parts of the docs, their schemas, tests/snapshots
	@for each in made_parts schemas meta.test_english; do PYTHONPATH=harness $(PYTHON) -m tests.$$each || exit; done

pictures: .venv/developing.txt  ## write the pictures of pages in docs/images, as Chromium shows them in the tests
	@$(PYTHON) -m pytest tests/lab/test_live_browser.py --lab-engine all --pictures

lint: .venv/developing.txt  ## run ruff, mypy, import-linter and shellcheck, and collect all tests together
	@$(PYTHON) -m pytest tests --collect-only -qq >/dev/null && .venv/bin/ruff check . && .venv/bin/ruff format --check . && .venv/bin/mypy && .venv/bin/lint-imports && .ci/shell-scripts | xargs .venv/bin/shellcheck

docs: .venv/developing.txt  ## build the book as a site into site/, without the network; a broken link is an error
	@NO_MKDOCS_2_WARNING=1 PYTHONPATH=harness .venv/bin/mkdocs build --quiet

transcript: .venv/developing.txt  ## type the ten minutes of docs/attach.md again, and write what they print
	@PYTHONPATH=harness $(PYTHON) -m tests.lab.ten_minutes

readability: .venv/developing.txt  ## print how hard docs and help are to read
	@$(PYTHON) tests/readability.py

# The launcher installs the hash-locked list of what the lab itself needs.
.venv/installed.txt: harness/requirements.txt
	@./lab --help >/dev/null

# Tests, checks and the book need more.
.venv/developing.txt: tests/requirements.txt .venv/installed.txt
	@PYTHONPATH=harness $(PYTHON) -m tests.install
