# `make` sets up .venv and runs the default experiment; `make help` lists all targets.
# The same by hand: see docs/setup.md. PYTHON=... names another interpreter.

PYTHON ?= python3
CORES ?= 4
PORT ?= 8000
RESULTS ?= results
REPORT := $(RESULTS)/report/index.html
VENV := .venv
# With an NVIDIA GPU its builds are installed, for the CUDA that its driver runs. GPU=cpu, cuda12 or cuda13 asks for others.
SET_UP := $(PYTHON) -I envs/set_up.py
RUN := PATH="$(CURDIR)/$(VENV)/bin:$$PATH"
UV := $(VENV)/bin/uv
BUILD := --build-constraints requirements-build.txt
# Packages and folders of the user's would take the place of those in .venv. Without bytecode every start costs seconds.
unexport PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE
# Two workers, whatever the cores: two workflows at a time. tests/conftest.py says which tests go to one worker.
PYTEST := python -m pytest -n 2 --durations=30
QUICK := -m "not slow and not parity and not faults and not adversary and not benchmarks and not real_data and not gpu \
  and not cluster and not environments"
BENCHMARK := $(RUN) PYTHONPATH=workflow/scripts:tests python tests/benchmarks
CAMPAIGNS := $(RUN) PYTHONPATH=workflow/scripts:tests python tests/adversary/planted_campaigns.py --work build/campaigns

.PHONY: all paper paper-archive report test gpu-check expected torch torch-cpu workers cluster clean help lint coverage test-slow test-parity test-faults \
  test-adversary test-load test-gpu test-benchmarks test-cluster test-environments test-fresh test-real-data certify-networks \
  bench-imagenet bench-loading bench-records bench-verdicts \
  bench-intervals bench-campaigns bench-history bench-load bench-loops bench-own bench-imported bench-replays bench-workers bench-clipped bench-start bench-cluster bench-matrices \
  bench-workflow shown lock gpu-quick prepare images plants honest

##@ For users

all: $(VENV)/.installed ## set up .venv and run the default experiment: some minutes (CORES=4)
	@$(RUN) snakemake --cores $(CORES) --resources gpu=1

report: ## open the report in a browser, or serve it on localhost if there is no display (RESULTS=results)
	@test -f $(REPORT) || { echo "$(REPORT): there is no report yet; run make, which writes it" >&2; exit 1; }
	@if [ -n "$$DISPLAY$$WAYLAND_DISPLAY" ] || [ "$$(uname)" = Darwin ]; then \
	  $(PYTHON) -m webbrowser "file://$(abspath $(REPORT))"; \
	else \
	  echo "The report is at http://127.0.0.1:$(PORT)/report/ until Ctrl-C (PORT=: another port)."; \
	  echo "From another machine, first: ssh -L $(PORT):127.0.0.1:$(PORT) <this machine>"; \
	  $(PYTHON) -m http.server --bind 127.0.0.1 --directory "$(RESULTS)" $(PORT); \
	fi

test: $(VENV)/.installed-dev ## set up and run the tests, except the slow ones below: some minutes
	@$(RUN) $(PYTEST) $(QUICK) $(TESTS)

paper: $(VENV)/.installed ## write numbers, tables and figures of the results for a paper in LaTeX: results/paper
	@$(RUN) snakemake --cores 2 paper

paper-archive: $(VENV)/.installed ## pack the results with config, source and checksums for a data repository: paper-archive.zip
	@$(RUN) python3 workflow/scripts/archive.py

gpu-check: $(VENV)/.installed ## what does each framework see of the GPUs, and does it compute there? Seconds
	@$(RUN) python3 workflow/scripts/check_gpu.py

torch: $(VENV)/.installed ## add torch, for the frameworks torch and keras-torch: 0.9 GB, or several with CUDA
	@$(SET_UP) torch

torch-cpu: $(VENV)/.installed ## the same, from an index that has torch's build for CPUs
	@$(SET_UP) torch-cpu

workers: $(VENV)/.installed ## add MPI, for runs with several workers: 22 MB
	@$(SET_UP) workers

# A line of a .pth file is one more folder on Python's path: Snakemake looks there for its plug-ins.
ADD_EXECUTOR = $(VENV)/bin/python -c 'import pathlib, sysconfig; \
  pathlib.Path(sysconfig.get_path("purelib"), "trainmark.pth").write_text(f"{pathlib.Path.cwd()}/workflow/executor\n")'
cluster: $(VENV)/.installed ## let Snakemake find the executor of the profiles for Slurm, Grid Engine and TSUBAME
	@$(ADD_EXECUTOR)

prepare: $(VENV)/.installed ## make the conda environments of a config ahead, for hosts without network (CONFIG=)
	@$(RUN) snakemake --sdm conda --conda-create-envs-only --cores 1 $(if $(CONFIG),--configfile $(CONFIG))

images: ## build the container images of envs/ (REGISTRY= BASE= ENGINE= ENVIRONMENTS="chainer data report")
	@REGISTRY="$(REGISTRY)" BASE="$(BASE)" ENGINE="$(ENGINE)" sh envs/build_images.sh $(ENVIRONMENTS)

expected: $(VENV)/.installed ## the runs behind the numbers in docs/expected.md (needs MNIST, make torch-cpu): 20 minutes
	@$(RUN) snakemake --cores $(CORES) --resources gpu=1 --configfile config/expected.yaml

clean: ## remove the environment and caches; results stay
	rm -rf $(VENV) build .snakemake .pytest_cache .ruff_cache .mypy_cache .coverage*

help: ## this list
	@awk 'BEGIN { FS = ":.*## " } /^##@ / { print (groups++ ? "\n" : "") substr($$0, 5) } \
	  /^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1 == "all" ? "" : $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

##@ For developers: checks

# Packages of which there is no wheel; of immutables there is none for Python 3.14.
SOURCES := chainer connection-pool immutables
lint: $(VENV)/.installed-dev ## ruff, snakefmt, snakemake --lint, import-linter, mypy, and wheels of the lock for Apple silicon
	@$(RUN) ruff check . && $(RUN) ruff format --check . && $(RUN) snakefmt --check . && $(RUN) snakemake --lint
	@$(RUN) PYTHONPATH=workflow/scripts lint-imports --no-cache && $(RUN) mypy
	@$(SET_UP) --versions | grep -o '3\.[0-9]*' | xargs -P 4 -I{} $(UV) pip compile --quiet --no-deps --only-binary :all: \
	  $(SOURCES:%=--no-binary %) $(BUILD) --python-version {} --python-platform aarch64-apple-darwin requirements.txt -o $(VENV)/macos-{}.txt

# Child processes count too.
coverage: $(VENV)/.installed-dev ## which lines of workflow/scripts `make test` misses, by file and package (TESTS=<path>)
	@$(RUN) $(PYTEST) $(QUICK) --cov --cov-report= $(TESTS)
	@$(RUN) coverage report -m | awk '{ print } /\.py / { n = split($$1, part, "/"); package = part[n > 4 ? 4 : n - 1]; \
	  lines[package] += $$2; missed[package] += $$3 } END { print "\npackage       lines covered"; for (package in lines) \
	  printf "%-13s %5d %7d %3d%%\n", package, lines[package], lines[package] - missed[package], \
	  100 * (1 - missed[package] / lines[package]) | "sort" }'

# One test after the other: each takes both cores.
test-parity: $(VENV)/.installed-dev ## certify every network in every framework, find injected errors: 40 minutes
	@$(RUN) python -m pytest --durations=30 -m parity $(TESTS)

test-slow: $(VENV)/.installed-dev ## single tests that take long: minutes
	@$(RUN) $(PYTEST) -m slow $(TESTS)

test-faults: $(VENV)/.installed-dev ## kill workflows and runs in every phase, by every signal: some minutes
	@$(RUN) $(PYTEST) -m faults $(TESTS)

test-adversary: $(VENV)/.installed-dev ## attack whole workflows: wrong trainings, edited results, wrong commands
	@$(RUN) $(PYTEST) -m adversary --ignore tests/adversary/test_machine.py $(TESTS)

# One test after the other, on a machine that is quiet otherwise.
test-load: $(VENV)/.installed-dev ## attack the machine beside a workflow: foreign load, stopped runs, clocks
	@$(RUN) python -m pytest --durations=30 -m adversary tests/adversary/test_machine.py

test-benchmarks: $(VENV)/.installed-dev ## do the benchmarks print their numbers? Minutes
	@$(RUN) $(PYTEST) -m benchmarks

# Three workers: a third of the time is spent waiting, for time limits and for a scheduler that is away.
test-cluster: $(VENV)/.installed-dev ## a real Slurm and a real Grid Engine on this machine (root): 15 minutes
	@$(RUN) python -m pytest -n 3 --durations=30 -m cluster $(TESTS)

test-environments: $(VENV)/.installed-dev ## --sdm conda with a stand-in, --sdm apptainer with Podman (BASE=): minutes
	@$(RUN) BASE="$(BASE)" $(PYTEST) -m environments

# SUITES="trixie sid" names the systems.
test-fresh: ## from a fresh Debian 13 and Debian unstable to the report and the unit tests (root, debootstrap): 20 minutes (TESTS=<paths>)
	@TESTS="$(TESTS)" $(PYTHON) tests/fresh_systems.py $(SUITES)

test-gpu: $(VENV)/.installed-dev ## what a GPU has to show, in stages, into build/gpu-results (PART=quick, more or whole; STAND_IN=1: without a GPU)
	@$(RUN) python tests/gpu_stages.py $(if $(STAND_IN),--stand-in) $(PART)

# MNIST: a mirror with the files of MNIST.
gpu-quick: $(VENV)/.installed ## make build/gpu-bundle, which runs PART=quick on a machine without network, and print the commands (PYTHONS=3.12 MNIST=)
	@$(RUN) python tests/gpu_bundle.py make build/gpu-bundle "$(or $(MNIST),../shared/data)" $(PYTHONS)

test-real-data: $(VENV)/.installed-dev ## tests on real data from a mirror beside the repository: two hours
	@$(RUN) python -m pytest -m real_data

##@ For developers: measurements

plants: $(VENV)/.installed-dev ## what names each of 52 mistakes and forgeries in a whole workflow, as a table: an hour (NAMES=)
	@$(CAMPAIGNS) plants $(NAMES)

honest: $(VENV)/.installed-dev ## what is refused in 43 honest campaigns, which must be nothing: an hour (NAMES=)
	@$(CAMPAIGNS) honest $(NAMES)

certify-networks: $(VENV)/.installed-dev ## certify every network, as a table of classes and largest differences
	@$(RUN) python -m pytest -q -s -m parity tests/parity/test_networks.py

bench-loading: $(VENV)/.installed ## images/s of streams beside bare decoding (IMAGES=<folder of photographs>, or generated)
	@$(BENCHMARK)/loading.py $(IMAGES)

bench-imagenet: $(VENV)/.installed-dev ## beside Chainer's ImageNet example (EXAMPLE=<its folder> IMAGES=<folder of classes>)
	@$(BENCHMARK)/chainer_example.py $(EXAMPLE) $(IMAGES)

bench-records: $(VENV)/.installed-dev ## checks, tables and report of 10,000 records: seconds, memory, size of the page. A minute
	@$(BENCHMARK)/many_records.py

bench-verdicts: $(VENV)/.installed-dev ## one setting under two names, and one slowed by 10 %: some minutes (LOADS="0 5 10 30" SLOWDOWNS="0 5 20 50 100")
	@$(BENCHMARK)/verdicts.py $(if $(LOADS),--loads $(LOADS)) $(if $(SLOWDOWNS),--slowdowns $(SLOWDOWNS))

bench-intervals: $(VENV)/.installed-dev ## how often intervals hold, how often verdicts are false: half a minute
	@$(BENCHMARK)/intervals.py

bench-campaigns: $(VENV)/.installed-dev ## verdicts on two simulated campaigns, and what ten large ones take: half an hour
	@$(BENCHMARK)/two_campaigns.py

bench-history: $(VENV)/.installed-dev ## how often history.py finds changes, and some that there are not: ten minutes
	@$(BENCHMARK)/change_points.py

bench-load: $(VENV)/.installed-dev ## do the bounds of disturbed runs hold? Trainings beside loads of 2 to 60 % of a CPU: half an hour
	@$(BENCHMARK)/load.py

bench-loops: $(VENV)/.installed-dev ## seconds per epoch beside the frameworks' own examples: half an hour (MNIST=<mirror> DEVICE=gpu)
	@$(BENCHMARK)/loops.py $(if $(DEVICE),--device $(DEVICE))

bench-workers: $(VENV)/.installed-dev ## efficiency of two workers beside the engines' own examples: ten minutes
	@$(BENCHMARK)/workers.py

bench-own: $(VENV)/.installed-dev ## our own layers and update rules beside the frameworks': a quarter of an hour
	@$(BENCHMARK)/own_parts.py

bench-imported: $(VENV)/.installed-dev ## a step of an imported network beside one of the torch.nn.Module: minutes
	@$(BENCHMARK)/imported_networks.py

bench-clipped: $(VENV)/.installed ## test losses of keras-mnist as Keras of 2017 computed them (needs its runs in results/): seconds
	@$(BENCHMARK)/clipped_loss.py

bench-replays: $(VENV)/.installed ## how much replays of audited epochs differ (REPLAYS=3; needs runs in results/ with keep_weights: true): a minute
	@$(BENCHMARK)/replays.py $(if $(REPLAYS),--replays $(REPLAYS))

# Also on a machine that does other work: it prints minima and their ratios.
bench-start: $(VENV)/.installed ## seconds to the first step beside the bare import (ROUNDS=3): some minutes
	@$(BENCHMARK)/start.py $(if $(ROUNDS),--rounds $(ROUNDS))

bench-matrices: $(VENV)/.installed-dev ## what snakemake costs for 10,000 runs, beside a bare Snakefile: some minutes
	@$(BENCHMARK)/large_matrices.py

# Its processes' times need a quiet machine.
bench-workflow: $(VENV)/.installed-dev ## how much of an experiment's time its processes take (CONFIG=<file>, or MNIST=<mirror>)
	@$(BENCHMARK)/workflow_cost.py $(if $(CONFIG),--configfile $(CONFIG)) $(if $(MNIST),--mnist $(MNIST))

# On a quiet machine.
shown: $(VENV)/.installed-dev ## the table of the README, docs/terminal.md and docs/report.png, from one call of the default experiment: 4 minutes
	@$(RUN) PYTHONPATH=workflow/scripts python tests/shown_campaign.py

bench-cluster: $(VENV)/.installed-dev ## 2,000 short runs through a real Slurm (RUNS= RUNS_PER_JOB=)
	@$(BENCHMARK)/cluster_runs.py

##@ For developers: requirements

# No address of an index is written into the locks. They name extras because pip 23.2, which Python 3.11 brings, takes a package with
# extras from its newest release unless the lock pins it with them.
LOCK := $(UV) pip compile --universal --no-strip-extras --python-version 3.11 --generate-hashes --no-annotate --no-header --quiet
ENVIRONMENTS := $(shell sed -n 's/^env-\([a-z-]*\) = .*/\1/p' pyproject.toml)
# For one machine and Python, so that no line has a condition. Chainer is installed by its post-deploy.sh.
ON_CONDA := --python-version 3.11 --python-platform x86_64-manylinux_2_28 --no-emit-package chainer $(BUILD) \
  -c requirements.txt --no-annotate --no-header --quiet
lock: $(VENV)/.installed ## renew the pinned requirements from pyproject.toml (FIND_LINKS=, torch's index of builds for CPUs)
	$(LOCK) --group set-up -o requirements-build.txt
	$(LOCK) pyproject.toml --extra cpu $(BUILD) -o requirements.txt
	$(LOCK) pyproject.toml --extra gpu $(BUILD) -c requirements.txt -o requirements-gpu.txt
	$(LOCK) pyproject.toml --extra gpu-cuda12 $(BUILD) -c requirements.txt -o requirements-gpu-cuda12.txt
	$(LOCK) --group torch -c requirements.txt -o requirements-torch.txt
	$(if $(FIND_LINKS),$(LOCK) --group torch-cpu -c requirements.txt --find-links $(FIND_LINKS) -o requirements-torch-cpu.txt)
	$(LOCK) --group workers -c requirements.txt -o requirements-workers.txt
	$(LOCK) --group dev -c requirements.txt -o requirements-dev.txt
	@set -e; for name in $(ENVIRONMENTS); do \
	  case $$name in *torch) other=torch ;; *) other=gpu-cuda12 ;; esac; \
	  pins=$$($(UV) pip compile --group env-$$name $(ON_CONDA) -c requirements-$$other.txt); echo "envs/$$name.yaml"; \
	  { printf '%s\n' "# Written by \`make lock\`: the group env-$$name of pyproject.toml, in the versions of requirements*.txt." \
	    'channels: [conda-forge, nodefaults]' 'dependencies:' '  - python=3.11.14' '  - pip=25.3' '  - pip:'; \
	    echo "$$pins" | sed 's/^/      - /'; } > envs/$$name.yaml; \
	done

$(VENV)/.installed: envs/set_up.py requirements-build.txt requirements.txt requirements-gpu.txt requirements-gpu-cuda12.txt
	@command -v "$(PYTHON)" > /dev/null || { echo "there is no $(PYTHON): on Debian or Ubuntu, sudo apt install python3-venv"; exit 1; }
	@$(SET_UP) $(if $(filter undefined,$(origin GPU)),,--gpu "$(GPU)")

$(VENV)/.installed-dev: requirements-dev.txt $(VENV)/.installed
	@$(SET_UP) dev
	@$(ADD_EXECUTOR)
	@touch $@
