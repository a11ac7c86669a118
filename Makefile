# The two commands of the README are `make run` and `make test`; both make .venv first.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: run test torture gpu-standin lint screenshots bench clean

run: .venv/installed
	@$(BIN)/tuitrain

# With the variable each worker, and each of the hundreds of programs that the tests start, would compile the sources anew.
test: .venv/installed-dev
	env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest

# Some 20 minutes; `make torture ONLY="kill damage"` tries some of the faults, SHARE=0.1 each of them a tenth as often.
torture: .venv/installed-dev
	@$(BIN)/python tests/torture $(if $(ONLY),--only $(ONLY)) $(if $(SHARE),--share $(SHARE))

# The tests that need GPUs, on stand-ins for CUDA, NCCL and NVML; see tests/cuda_standin/__main__.py. It takes a torch of 5 GB.
gpu-standin: .venv-cuda/installed
	.venv-cuda/bin/python tests/cuda_standin .venv-cuda/bin/python -m pytest -m gpu

lint: .venv/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m benchmarks.table --check

screenshots: .venv/installed-dev
	$(BIN)/python -m screenshots.make $(DATA)

bench: .venv/installed-dev
	$(BIN)/pip install -q -c constraints.txt -e '.[bench]'
	$(BIN)/python -m benchmarks $(DATA)

.venv/bin/pip:
	$(PYTHON) -m venv .venv

.venv/installed: .venv/bin/pip pyproject.toml constraints.txt
	@echo "Installing tuitrain and torch into .venv; the first time that takes some minutes."
	$(BIN)/pip install -q -c constraints.txt -e '.[vision]'
	@touch $@

.venv/installed-dev: .venv/installed
	$(BIN)/pip install -q -c constraints.txt -e '.[vision,dev]'
	@touch $@

.venv-cuda/installed: pyproject.toml
	$(PYTHON) -m venv .venv-cuda
	.venv-cuda/bin/pip install -q torch==2.14.1 torchvision==0.29.1 -e '.[vision,dev]'
	@touch $@

clean:
	rm -rf .venv .venv-cuda
