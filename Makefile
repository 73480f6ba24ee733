# Everything runs in .venv, which is created from the project's own files.
PYTHON ?= python3
VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed-$(VERSION)

.PHONY: setup run paper test check test-arithmetic lint docs outputs attack map bench bench-peers test-peers test-coming-from truths tables constraints clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("fbar needs Python 3.11 or later" if sys.version_info < (3, 11) else 0)'
	test -x $(BIN)/python$(VERSION) || rm -rf $(VENV)  # made by another version of Python
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[all,dev]'
	rm -f $(VENV)/.installed*
	touch $@

run: setup  ## influenza in a boarding school: an answer about the posterior, and what ABC would need; about a minute
	@mkdir -p results
	$(BIN)/fbar infer examples/influenza.py --budget 100000 --seed 1 --run results/flu --json > results/flu.json
	$(BIN)/python examples/boarding_school.py results/flu.json
	$(BIN)/fbar report results/flu --out results/flu.html

paper: setup  ## regenerate the paper's figures and print its claims next to our numbers
	$(BIN)/fbar paper --out paper-results

PYTEST := $(BIN)/python -m pytest -n 2 --dist worksteal

test: setup lint  ## everything; about 20 minutes on two cores
	$(PYTEST)
	$(MAKE) docs

check: setup lint  ## for daily work: without statistics, browsers and processes; about two minutes
	$(PYTEST) -q -m 'not (slow or browser or processes)'

test-arithmetic: setup  ## tests that depend on rounding, again as another processor would compute it; two minutes
	$(BIN)/python tests/other_processor.py $(PYTEST) -q -m "arithmetic and not (slow or processes or browser)"

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: setup  ## the pages, with their code executed again
	$(BIN)/python -m sphinx -W --keep-going -E -q -j 2 -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

PAGES ?=
outputs: setup  ## store in the pages what their code prints, and the text of the reference; PAGES="docs/tutorial.md …" for some
	$(BIN)/python docs/_ext/reference_text.py
	$(BIN)/python docs/_ext/stored_outputs.py $(PAGES)

map: setup  ## the picture of the rooms in CONTRIBUTING, from the real imports
	$(BIN)/python docs/_ext/house.py docs/house.svg

MINUTES ?= 10
attack: setup  ## kills, damaged files, full disks, hostile directories, wrong calls, for MINUTES=10; prints a table of what failed
	$(BIN)/python -m attack --minutes $(MINUTES)

bench: setup
	@for file in benchmarks/bench_*.py; do echo "== $$file"; $(BIN)/python $$file || exit 1; done

# Other packages, each in a separate environment: the versions that one pins do not affect the others, nor fbar.
PEERS := .venv-peers
PEERS_SBI := .venv-peers-sbi
PEERS_ELFI := .venv-peers-elfi
PEERS_BAYESFLOW := .venv-peers-bayesflow

$(PEERS)/.installed: examples/peers/requirements-pyabc.txt pyproject.toml
$(PEERS_SBI)/.installed: examples/peers/requirements-sbi.txt pyproject.toml
$(PEERS_ELFI)/.installed: examples/peers/requirements-elfi.txt pyproject.toml
$(PEERS_BAYESFLOW)/.installed: examples/peers/requirements-bayesflow.txt pyproject.toml
$(PEERS)/.installed $(PEERS_SBI)/.installed $(PEERS_ELFI)/.installed $(PEERS_BAYESFLOW)/.installed:
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[fast,run]' -r $<
	touch $@

test-peers: $(PEERS)/.installed $(PEERS_SBI)/.installed test-coming-from  ## the adapters of examples/peers; about four minutes
	$(PEERS)/bin/python -m pytest tests_peers/test_pyabc.py
	$(PEERS_SBI)/bin/python -m pytest tests_peers/test_sbi.py tests_peers/test_sbi_npe.py

COMING_FROM := -m pytest tests_peers/test_coming_from.py -k
test-coming-from: $(PEERS)/.installed $(PEERS_SBI)/.installed $(PEERS_ELFI)/.installed $(PEERS_BAYESFLOW)/.installed  ## the code of docs/how-to/coming-from.md; about two minutes
	$(PEERS)/bin/python $(COMING_FROM) pyABC
	$(PEERS_SBI)/bin/python $(COMING_FROM) sbi
	$(PEERS_ELFI)/bin/python $(COMING_FROM) ELFI
	$(PEERS_BAYESFLOW)/bin/python $(COMING_FROM) BayesFlow

bench-peers: $(PEERS)/.installed  ## compared with other packages, in a separate environment; resumes where it stopped
	@for file in benchmarks/peers/bench_*.py; do echo "== $$file"; $(PEERS)/bin/python $$file || exit 1; done

truths: setup  ## compute the catalogue's observations, truths and tolerances again; about an hour
	$(BIN)/python -m fbar.problems.store
	$(BIN)/python -m fbar.problems.store --at-tolerance
	$(MAKE) tables

tables: setup  ## write the tables of scores and problems into the pages about them
	$(BIN)/python docs/_ext/page_tables.py

constraints:  ## pin the versions that are installed now; lines for a single version of Python stay as they are
	$(BIN)/python -m pip freeze --exclude-editable | grep -v '@' > constraints.new
	grep ';' constraints.txt > constraints.kept
	cut -d= -f1 constraints.kept | sort -u | sed 's/.*/^&==/' | grep -v -i -f - constraints.new | sort -f - constraints.kept > constraints.txt
	rm constraints.new constraints.kept

clean:
	rm -rf $(VENV) .venv-peers* results paper-results docs/_build .mypy_cache .ruff_cache .pytest_cache
