# Nothing but python3 (3.11 or newer) and make is needed: every target sets up .venv by itself.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEMO := demo
WORKERS ?= 2

# One thread for each process: the tests run side by side, and results do not depend on the number of cores.
export OMP_NUM_THREADS := 1

#: The Pythons in which `make wheel` tries the package.
PYTHONS ?= python3.11 python3.12 python3.13
SITE := site
.PHONY: help demo test lint bench wheel floors lock docs clean

help:
	@echo "make demo   a release of simulated patients, with its page, in $(DEMO)/"
	@echo "make test   ruff, mypy, and all tests with the examples in README, docs and docstrings"
	@echo "make lint   ruff and mypy alone"
	@echo "make bench  the benchmarks, one JSON object each"
	@echo "make wheel  wheel and source archive in dist/, tried in a clean environment of $(PYTHONS)"
	@echo "make floors tests against the oldest versions of all dependencies"
	@echo "make docs   the documentation as a site in $(SITE)/, which opens and searches without a server"
	@echo "make lock   write down the versions that demo and test install, after a look for newer ones"
	@echo "make clean  remove what the other targets made, but not $(VENV)"

$(STAMP): pyproject.toml constraints.txt lock.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "found $$($(PYTHON) --version); Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -c lock.txt -e '.[dev]'
	@touch $@

demo: $(STAMP)
	@rm -rf $(DEMO)
	@mkdir -p $(DEMO)
	$(BIN)/adapcla synthesize simulated --out $(DEMO)/release --minutes 2.5
	@echo
	@echo "data      $(DEMO)/release/csv, their card $(DEMO)/release/README.md"
	@echo "page      $(DEMO)/release/report.html"
	@echo "methods   beside each other: $(BIN)/adapcla run demo --out runs"

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint
	$(BIN)/python -m pytest -n $(WORKERS) -q

bench: $(STAMP)
	@failed=""; \
	for script in $(wildcard benchmarks/*.py); do \
		echo "== $$script" >&2; \
		$(BIN)/python $$script || failed="$$failed $$script"; \
	done; \
	test -z "$$failed" || { echo "not met or failed:$$failed" >&2; exit 1; }

wheel:
	scripts/wheel.sh $(PYTHONS)

# Packages that meet every dependency; the whole suite would also hold results to the last digit.
floors:
	rm -rf build/floors
	$(PYTHON) -m venv build/floors
	build/floors/bin/python -m pip install --quiet --disable-pip-version-check -c constraints-floors.txt -e '.[dev]'
	build/floors/bin/python -m pytest -q -n $(WORKERS) tests/data tests/io tests/scaffold tests/training \
		tests/generation tests/cli tests/report tests/contracts/test_sources.py

lock:
	rm -rf build/lock
	$(PYTHON) -m venv build/lock
	build/lock/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	{ sed -n '/^#/p' lock.txt; build/lock/bin/python -m pip freeze --exclude-editable | sed 's/+cpu$$//'; } > lock.tmp
	mv lock.tmp lock.txt

docs:
	test -x build/docs/bin/python || $(PYTHON) -m venv build/docs
	build/docs/bin/python -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['optional-dependencies']['docs'], sep='\n')" > build/docs/needs.txt
	build/docs/bin/python -m pip install --quiet --disable-pip-version-check -r build/docs/needs.txt
	build/docs/bin/python scripts/site.py gather build/site-source
	NO_MKDOCS_2_WARNING=1 build/docs/bin/python -m mkdocs build --strict --quiet --config-file build/mkdocs.yml --site-dir $(CURDIR)/$(SITE)
	build/docs/bin/python scripts/site.py check $(SITE)
	@echo "open $(SITE)/index.html"

clean:
	rm -rf $(SITE) $(DEMO) .pytest_cache .mypy_cache .ruff_cache .hypothesis dist build
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
