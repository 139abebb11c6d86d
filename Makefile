# `make` sets up .venv and runs the default experiment; `make test` sets it up and runs the tests.
# The same by hand: see README. Needs Python 3.11 or 3.12 with venv; PYTHON=... names another interpreter.

PYTHON ?= python3
CORES ?= 4
VENV := .venv
# Where there is an NVIDIA GPU its builds of the frameworks are installed (several GB); GPU= asks for the CPU's.
GPU ?= $(shell nvidia-smi -L 2>/dev/null | grep -m 1 '^GPU ')
REQUIREMENTS := $(if $(GPU),requirements-gpu.txt,requirements.txt)
# Bytecode is compiled at install: without it every start of a framework costs seconds.
PIP := env -u PYTHONDONTWRITEBYTECODE $(VENV)/bin/python -m pip --disable-pip-version-check
RUN := PATH="$(CURDIR)/$(VENV)/bin:$$PATH"

.PHONY: all test test-parity test-faults test-adversary test-benchmarks test-real-data lint coverage lock expected certify-networks bench-images bench-phases \
  bench-records bench-verdicts bench-watching bench-intervals bench-epochs torch clean help

all: $(VENV)/.installed
	@$(RUN) snakemake --cores $(CORES) --resources gpu=1

# Two workers, whatever the cores: two workflows at a time. tests/conftest.py says which tests go to one worker.
PYTEST := python -m pytest -n 2 --durations=30
QUICK := -m "not parity and not faults and not adversary and not benchmarks and not real_data"

test: $(VENV)/.installed-dev
	@$(RUN) $(PYTEST) $(QUICK)

# Every network certified in every framework, and errors planted in each adapter: forty minutes. One after the other: each
# takes both cores.
test-parity: $(VENV)/.installed-dev
	@$(RUN) python -m pytest --durations=30 -m parity $(TESTS)

# Workflows and runs killed in every phase, by every signal: some minutes.
test-faults: $(VENV)/.installed-dev
	@$(RUN) $(PYTEST) -m faults

# Attacks on whole workflows: wrong trainings, foreign load, edited results. Each is refused, named, or a documented limit.
test-adversary: $(VENV)/.installed-dev
	@$(RUN) python -m pytest --durations=30 -m adversary

# Do bench-phases and bench-verdicts print their figures? A minute.
test-benchmarks: $(VENV)/.installed-dev
	@$(RUN) $(PYTEST) -m benchmarks

# The same networks as a table: classes and largest differences.
certify-networks: $(VENV)/.installed-dev
	@$(RUN) PYTHONPATH=workflow/scripts:tests python tests/parity/certify_networks.py

lint: $(VENV)/.installed-dev
	@$(RUN) ruff check . && $(RUN) ruff format --check . && $(RUN) snakefmt --check . && $(RUN) snakemake --lint
	@$(RUN) PYTHONPATH=workflow/scripts lint-imports --no-cache && $(RUN) mypy

# Which lines of workflow/scripts do the tests of `make test` run, in child processes too? By file, then by room.
coverage: $(VENV)/.installed-dev
	@$(RUN) $(PYTEST) $(QUICK) --cov --cov-report= $(TESTS)
	@$(RUN) coverage report -m | awk '{ print } /\.py / { n = split($$1, part, "/"); room = part[n > 4 ? 4 : n - 1]; \
	  lines[room] += $$2; missed[room] += $$3 } END { print "\nroom          lines covered"; for (room in lines) \
	  printf "%-13s %5d %7d %3d%%\n", room, lines[room], lines[room] - missed[room], \
	  100 * (1 - missed[room] / lines[room]) | "sort" }'

# The expected numbers of the README: needs MNIST, from the network or from a mirror (TRAINMARK_MIRROR).
expected: $(VENV)/.installed
	@$(RUN) snakemake --cores $(CORES) --resources gpu=1 --configfile config/expected.yaml

# The tests that need the real data of a mirror beside the repository: half an hour.
test-real-data: $(VENV)/.installed-dev
	@$(RUN) python -m pytest -m real_data

# Decoding, mean image and packed store, against Pillow and the bare decode: IMAGES is a folder of photographs.
bench-images: $(VENV)/.installed
	@$(RUN) PYTHONPATH=workflow/scripts python tests/benchmarks/image_pipeline.py $(IMAGES)

# Do a run's phases sum to its wall time? Fifty runs, measured from outside; some minutes.
bench-phases: $(VENV)/.installed-dev
	@$(RUN) PYTHONPATH=workflow/scripts:tests python tests/benchmarks/wall_times.py

# How long does a call look at 1,000 records? Some seconds.
bench-records: $(VENV)/.installed-dev
	@$(RUN) PYTHONPATH=workflow/scripts:tests python tests/benchmarks/many_records.py

# One setting under two names, and one slowed by 10 %: what does the report say? Some minutes.
bench-verdicts: $(VENV)/.installed-dev
	@$(RUN) PYTHONPATH=workflow/scripts:tests python tests/benchmarks/verdicts.py

# What does watching the machine cost, and what do undisturbed runs see? A minute; the calibration needs a quiet machine.
bench-watching: $(VENV)/.installed-dev
	@$(RUN) PYTHONPATH=workflow/scripts:tests python tests/benchmarks/watching.py

# How often do intervals hold, where ratios correlate from repeat to repeat? Half a minute.
bench-intervals: $(VENV)/.installed-dev
	@$(RUN) PYTHONPATH=workflow/scripts:tests python tests/benchmarks/intervals.py

# How near do right trainings come to what a certificate allows in whole epochs? Some minutes.
bench-epochs: $(VENV)/.installed-dev
	@$(RUN) PYTHONPATH=workflow/scripts:tests python tests/benchmarks/honest_epochs.py

# keras-torch is an extra: torch from the index brings several GB of CUDA along.
torch: $(VENV)/.installed
	@$(PIP) install --quiet --require-hashes -r requirements-torch.txt

$(VENV)/.installed: requirements-build.txt $(REQUIREMENTS)
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 12))' \
	  || { echo "trainmark needs Python 3.11 or 3.12, and $(PYTHON) is another: call make PYTHON=python3.11"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null \
	  || { echo "$(PYTHON) can't make virtual environments: on Debian or Ubuntu, sudo apt install python3-venv"; exit 1; }
	@echo "Setting up $(VENV) from $(REQUIREMENTS): once, a few minutes, 3 GB of disk"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) install --quiet --require-hashes -r requirements-build.txt
	@$(PIP) install --quiet --require-hashes --no-build-isolation -r $(REQUIREMENTS)
	@env -u PYTHONDONTWRITEBYTECODE $(VENV)/bin/python -m compileall -q workflow/scripts
	@touch $@

$(VENV)/.installed-dev: requirements-dev.txt $(VENV)/.installed
	@$(PIP) install --quiet --require-hashes -r requirements-dev.txt
	@touch $@

# Renew the locks from pyproject.toml. No address of an index is written into them.
LOCK := uv pip compile --universal --python-version 3.11 --generate-hashes --no-annotate --no-header --quiet
lock:
	$(LOCK) pyproject.toml --extra cpu --build-constraints requirements-build.txt -o requirements.txt
	$(LOCK) pyproject.toml --extra gpu --build-constraints requirements-build.txt -c requirements.txt -o requirements-gpu.txt
	$(LOCK) --group torch -c requirements.txt -o requirements-torch.txt
	$(LOCK) --group dev -c requirements.txt -o requirements-dev.txt
	$(LOCK) --group build -c requirements.txt -o requirements-build.txt

clean:
	rm -rf $(VENV) .snakemake .pytest_cache .ruff_cache .mypy_cache .coverage*

help:
	@echo "make            set up and run the default experiment (CORES=$(CORES))"
	@echo "make test       set up and run the tests, but for those of the targets below: some minutes"
	@echo "make test-parity      every network certified in every framework, and planted errors found"
	@echo "make test-faults      workflows and runs that are killed in every phase go on"
	@echo "make test-adversary   attacks on the results are refused or named: wrong trainings, foreign load, edited records"
	@echo "make test-benchmarks  bench-phases and bench-verdicts print their figures"
	@echo "make certify-networks   the same networks as a table of differences"
	@echo "make test-real-data   the tests on real data alone (see tests)"
	@echo "make lint       ruff, snakefmt, snakemake --lint, import-linter and mypy"
	@echo "make coverage   run the tests, and show which lines they miss, by file and room (TESTS=<path>: some of them)"
	@echo "make torch      add torch, for the framework keras-torch"
	@echo "make expected   the runs behind the README's expected numbers (needs MNIST)"
	@echo "make bench-images IMAGES=<folder>   speed of decoding, mean image and packed store on your photographs"
	@echo "make bench-phases   do the phases of 50 runs sum to their wall times, measured from outside?"
	@echo "make bench-records  how long does a call of snakemake look at 1,000 records?"
	@echo "make bench-verdicts    is one setting under two names told apart, and one slowed by 10 %?"
	@echo "make bench-watching   what watching the machine costs, and what undisturbed runs see of others' load"
	@echo "make bench-epochs     how near right trainings come to what a certificate allows"
	@echo "make bench-intervals  how often intervals hold, where ratios correlate from repeat to repeat"
	@echo "make lock       renew the pinned requirements (needs uv)"
	@echo "make clean      remove the environment and caches; results stay"
