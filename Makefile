# make report | test | test-all | test-exhaustive | lint | docs | mutation | fuzz: each sets up .venv first, and again only when one of its inputs has changed.
# On a machine without a GPU, PIP_EXTRA_INDEX_URL may name PyTorch's CPU wheels to save the download of CUDA.

PYTHON ?= python3
PYTEST_ARGS ?=
MINUTES ?= 10

BIN := .venv/bin
# What is installed and by which Python (an activated .venv is that of its base). The stamp holds its hash and is written last: an interrupted set-up is redone.
STAMP := .venv/inputs.sha256
HASH := import hashlib, pathlib, sys; \
  inputs = [pathlib.Path(name).read_bytes() for name in ("pyproject.toml", "constraints.txt")]; \
  print(hashlib.sha256(b"\0".join([*inputs, sys.version.encode(), sys.base_prefix.encode()])).hexdigest())
INPUTS := $(shell $(PYTHON) -c '$(HASH)')
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

# The tests start many Pythons: bytecode is compiled once, also where the environment says not to keep it.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: report test test-all test-exhaustive lint docs mutation fuzz venv clean
.SILENT:

report: venv
	$(BIN)/ioaware report -o report

# Every kernel, every verb, the proofs, and a sample of what is long.
test: venv
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow" $(PYTEST_ARGS)

# The default tests, and the long ones with a sample of their cases.
test-all: venv
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not exhaustive" $(PYTEST_ARGS)

# The long tests with all their cases, run before each release: an hour of CPU.
test-exhaustive: venv
	IOAWARE_EXAMPLES=100 $(BIN)/python -m pytest -n 2 --dist worksteal -m slow $(PYTEST_ARGS)

lint: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python scripts/check_words.py
	$(BIN)/python scripts/check_docstrings.py
	$(BIN)/python -m scripts.check_sentences
	$(BIN)/lint-imports
	$(BIN)/zizmor --offline --quiet --no-progress .github
	$(BIN)/basedpyright --pythonpath $(BIN)/python --level error

docs: venv
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict --site-dir site

# An extra, run on demand: about 15 minutes of CPU.
mutation: venv
	$(PIP) -e '.[mutation]'
	$(BIN)/python scripts/mutation.py

# An extra, run before each release: the readers of files and the derivation.
fuzz: venv
	$(BIN)/python -m tests.support.fuzz.for_minutes $(MINUTES)

venv:
	test -n "$(INPUTS)" || { echo "make: $(PYTHON) does not run; choose a Python: make PYTHON=python3.12" >&2; exit 5; }
	test "$$(cat $(STAMP) 2>/dev/null)" = "$(INPUTS)" || { set -e; \
	  $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "make: ioaware needs Python >= 3.11, this is $$($(PYTHON) --version); choose one: make PYTHON=python3.12" >&2; exit 5; }; \
	  rm -rf .venv; \
	  echo "set-up 1/3: creating .venv with $$($(PYTHON) --version)" >&2; \
	  $(PYTHON) -m venv .venv; \
	  echo "set-up 2/3: build tools" >&2; \
	  $(PIP) hatchling editables; \
	  echo "set-up 3/3: PyTorch, Triton and the rest, pinned by constraints.txt (a minute or more)" >&2; \
	  $(PIP) --no-build-isolation -e '.[test,lint,docs,report]'; \
	  echo "$(INPUTS)" > $(STAMP); }

clean:
	rm -rf .venv build dist report site
