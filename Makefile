# The commands of the course. `make help` lists them.
# PYTHON: the Python that makes the environment. PIP_ARGS: extra words for pip, such as another index.
# LAB_ARGS: extra words for `kvlab lab`, such as "--no-browser --port 9000". PYTEST_ARGS: extra words for pytest.
# TEST_WORKERS: how many processes share the test files; 0 is pytest by itself, for a debugger or to see output as it comes.
PYTHON ?= python3
VENV ?= .venv
PIP_ARGS ?=
LAB_ARGS ?=
PYTEST_ARGS ?=
TEST_WORKERS ?= 2

ALL_EXTRAS := api,instructor,fast,tokenizers,models,site,dev
BIN := $(CURDIR)/$(VENV)/bin
ifeq ($(OS),Windows_NT)
BIN := $(CURDIR)/$(VENV)/Scripts
endif
PY := $(BIN)/python
# One thread each: processes that share the cores would wait for each other's.
PYTEST = OMP_NUM_THREADS=1 $(PY) -m pytest -n $(TEST_WORKERS) --dist loadfile

# Installing again is needed only when one of these files changed; the stamp's name holds their checksum.
HASH := $(shell cat pyproject.toml constraints.txt | cksum | tr -d ' ')
STAMP := $(VENV)/.installed-$(HASH)
# Used as $(call INSTALL,what to install). One dot every 5 seconds in a terminal; the dots end with the shell.
define INSTALL
[ ! -t 1 ] || (while sleep 5 && kill -0 $$$$ 2>/dev/null; do printf .; done) & \
$(PY) -m pip install -q --disable-pip-version-check -c constraints.txt $(PIP_ARGS) -e '$(1)' || { echo; \
	echo "The installation failed; the reason stands above. To start over, with another Python if you like:"; \
	echo "make clean, then make lab PYTHON=python3.12"; exit 1; }; [ ! -t 1 ] || echo
endef

# grading/ is not part of the installed package: deleting it leaves a course that works for learners.
export PYTHONPATH := $(CURDIR)/grading$(if $(PYTHONPATH),:$(PYTHONPATH))

.DEFAULT_GOAL := help
.PHONY: help lab test test-all check check-lint check-format check-types check-drift cards mutate prove build site bench instructor clean

help: ## list these commands
	@grep -E '^[a-z-]+:.*## ' Makefile | sed -E 's/^([a-z-]+):.*## (.*)/  make \1|\2/' | column -t -s '|' 2>/dev/null \
		|| grep -E '^[a-z-]+:.*## ' Makefile

lab: $(STAMP)-base ## open the course in JupyterLab
	@$(PY) -m kvlab lab $(LAB_ARGS)

test: $(STAMP)-all ## run all tests that need no root; those whose tool is missing are skipped by name
	$(PYTEST) $(PYTEST_ARGS)

test-all: $(STAMP)-all ## run all tests, long forms too; a missing tool (bubblewrap, Chromium, ...) is a failure
	KVLAB_REQUIRE=all KVLAB_FULL=1 $(PYTEST) $(PYTEST_ARGS)

check: $(STAMP)-all ## lint, format, types, and that notebooks and data are as built
	@+$(MAKE) --no-print-directory -k -j 4 check-lint check-format check-types check-drift

check-lint: $(STAMP)-all
	$(PY) -m ruff check .
check-format: $(STAMP)-all
	$(PY) -m ruff format --check .
check-types: $(STAMP)-all
	$(PY) -m mypy src grading/kvgrade
check-drift: $(STAMP)-all
	$(PY) -m kvgrade build --check
	$(PY) -m kvlab.checksums

prove: $(STAMP)-all ## run known right and wrong answers against the checks and the held-out cases
	$(PY) -m kvgrade prove

cards: $(STAMP)-all ## what each of the guide's 24 cards has here: demonstration, claims, exercise, quiz, fault
	$(PY) tests/cards.py

mutate: $(STAMP)-all ## plant every named fault in turn and list the tests that notice
	$(PY) tests/mutate.py

build: $(STAMP)-all ## build notebooks/ from grading/units/ and record the checksums of data/
	$(PY) -m kvgrade build
	$(PY) -m kvlab.checksums --write

site: $(STAMP)-all ## build the site from executed notebooks and docs: build/site/index.html, to be read without a network
	$(PY) docs/site $(SITE_ARGS)

bench: $(STAMP)-all ## measure decoding on this machine
	$(PY) benchmarks/decode.py

instructor: $(STAMP)-all ## open JupyterLab with the grading and authoring panels
	@$(PY) -m kvlab lab --instructor $(LAB_ARGS)

clean: ## remove the environment, caches and built files; work/ stays
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src grading tests benchmarks docs -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# A learner's environment: the package, and the provider SDKs of notebook 04.
$(STAMP)-base: | $(VENV)/.made
	@echo "Installing the course's packages, once (README.md says how much is downloaded) ..."
	@$(call INSTALL,.[api])
	@rm -f $(VENV)/.installed-*
	@touch $@

# The environment for tests, authors and instructors; it contains the learner's.
$(STAMP)-all: | $(VENV)/.made
	@echo "Installing the course's packages with all extras, once (README.md says how much is downloaded) ..."
	@$(call INSTALL,.[$(ALL_EXTRAS)])
	@rm -f $(VENV)/.installed-*
	@touch $(STAMP)-base $@

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "The course needs Python 3.11 or newer; '$(PYTHON)' is missing or older. Name one: make PYTHON=python3.12 ..."; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
		echo "'$(PYTHON) -m venv' failed. On Debian and Ubuntu install python3-venv first, then run make again."; exit 1; }
	@touch $@
