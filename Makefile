# make lab opens the notebooks, make test runs the tests; both set up all they need in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
KERNELS := $(VENV)/.kernels
NOTEBOOK ?= notebooks/00_start_here.ipynb
# a port of your choice (PORT=9000); without one JupyterLab takes the first free one from 8888 on
PORTFLAG := $(if $(PORT),--ServerApp.port=$(PORT) --ServerApp.port_retries=0)
ROOTFLAG := $(if $(filter 0,$(shell id -u)),--allow-root)

.PHONY: help lab test check-long figures bench lint lock clean

help:  ## show this list
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 18

lab: $(KERNELS)  ## open the notebooks in JupyterLab (PORT=9000 for a port of your choice)
	@$(BIN)/jupyter lab --ip=127.0.0.1 --LabApp.default_url=/lab/tree/$(NOTEBOOK) $(PORTFLAG) $(ROOTFLAG) || \
	  { echo "JupyterLab did not start. If the port is in use, try: make lab PORT=9000"; exit 1; }

test: $(KERNELS)  ## run all tests, side by side on all cores
	$(BIN)/python -m pytest -n logical --dist loadfile --no-loadscope-reorder

check-long: $(KERNELS)  ## the long statistical checks: coverage of intervals over hundreds of seeds
	$(BIN)/python -m pytest -n logical --dist loadfile --no-loadscope-reorder -m long

figures: $(KERNELS)  ## execute every notebook into build/: HTML, and each figure as PNG
	$(BIN)/jupyter nbconvert --execute --to notebook --output-dir build notebooks/*.ipynb
	$(BIN)/jupyter nbconvert --to html --output-dir build build/*.ipynb
	$(BIN)/jupyter nbconvert --to markdown --output-dir build build/*.ipynb

bench: $(KERNELS)  ## measure the figures of the README (REFERENCE=folder of the C programs, for the ratios)
	$(BIN)/python benchmarks/jsq.py
	$(BIN)/python benchmarks/slotted.py
ifdef REFERENCE
	$(BIN)/python benchmarks/markov.py $(REFERENCE)/jsq_ctmc.c
	$(BIN)/python benchmarks/workload.py $(REFERENCE)/jiq_general.c
endif

lint: $(READY)  ## check style and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

lock: $(READY)  ## pin new versions of all packages (needs the network and uv)
	uv pip compile pyproject.toml --extra test --universal --python-version 3.11 --generate-hashes \
	  --no-annotate --no-header --quiet --upgrade --output-file requirements.lock

clean:  ## remove the environment, compiled kernels and built files
	rm -rf $(VENV) build lbcore/__pycache__

$(READY): requirements.lock pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) was not found: install Python 3.11 or newer, or name it: make lab PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed; name it if it is not the first in the path: make lab PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	  { echo "Python's venv module is missing: install it (Debian and Ubuntu: apt install python3-venv)"; exit 1; }
	@echo "Setting up $(VENV): downloading and installing the packages of requirements.lock, a minute or two ..."
	@rm -rf $(VENV) && $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock || \
	  { echo "The packages could not be installed. They are downloaded once: is the network up, and is there a gigabyte of space?"; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

$(KERNELS): $(READY) $(shell find lbcore -name "*.py")
	@echo "Compiling the kernels ..."
	@$(BIN)/python -m lbcore
	@touch $@
