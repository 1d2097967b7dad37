# Nothing but python3 (3.11 or newer) and make is needed: every target sets up .venv by itself.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEMO := demo
WORKERS ?= 2

# One thread for each process: the tests run side by side, and results do not depend on the number of cores.
export OMP_NUM_THREADS := 1

.PHONY: help demo test lint bench clean

help:
	@echo "make demo   from a small made-up world to a data set that may be shared, with its page, in $(DEMO)/"
	@echo "make test   ruff, mypy, and all tests with the examples in README, docs and docstrings"
	@echo "make lint   ruff and mypy alone"
	@echo "make bench  the benchmarks, one JSON object each"
	@echo "make clean  remove what the other targets made, but not $(VENV)"

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "found $$($(PYTHON) --version); Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: $(STAMP)
	@rm -rf $(DEMO)
	@mkdir -p $(DEMO)
	$(BIN)/adapcla synthesize planted --out $(DEMO)/release --minutes 2
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
	for script in benchmarks/*.py; do \
		echo "== $$script" >&2; \
		$(BIN)/python $$script || failed="$$failed $$script"; \
	done; \
	test -z "$$failed" || { echo "not met or failed:$$failed" >&2; exit 1; }

clean:
	rm -rf $(DEMO) .pytest_cache .mypy_cache .ruff_cache .hypothesis dist build
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
