# Everything below makes .venv and installs the pinned environment first, once.
# On a machine whose pip brings a CUDA build of PyTorch, a CPU build is much smaller:
#   make demo PIP_OPTIONS="--extra-index-url https://download.pytorch.org/whl/cpu"

PYTHON ?= python3
TRITON ?= 3.6.0
PIP_OPTIONS ?=
WORKERS ?= 2
VENV ?= $(if $(filter 3.6.0,$(TRITON)),.venv,.venv-triton-$(TRITON))
BIN = $(VENV)/bin
READY = $(VENV)/.ready

.PHONY: demo test lint proof clean

demo: $(READY)
	$(BIN)/python examples/demo.py

test: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/null tests/cpu -q -n $(WORKERS) --dist loadfile

lint: $(READY)
	$(BIN)/ruff check src tests examples benchmarks proof
	$(BIN)/ruff format --check src tests examples benchmarks proof
	$(BIN)/mypy
	$(BIN)/lint-imports

proof: $(READY)
	cd proof && ../$(BIN)/python -m pytest . -q

$(READY): requirements-dev.txt pyproject.toml
	$(PYTHON) -m venv $(VENV)
	sed 's/^triton==.*/triton==$(TRITON)/' requirements-dev.txt > $(VENV)/requirements.txt
	$(BIN)/pip install --quiet --disable-pip-version-check $(PIP_OPTIONS) -r $(VENV)/requirements.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $(READY)

clean:
	rm -rf .venv .venv-triton-* build .tilewright
