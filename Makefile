# The front door. `make` alone prints what there is.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PYTEST := $(BIN)/python -m pytest
# Two files at a time, three where tests wait for programs much of their time; tests/conftest.py says in which order.
# ARGS="-n 0" for one after the other, as --pdb needs it.
FILES := --dist loadfile --no-loadscope-reorder
TWO := -n 2 $(FILES)
THREE := -n 3 $(FILES)
# The classes of Spark's JVM, already parsed, for tests (tests/spark/conftest.py).
CLASSES := .cache/spark/made
ARGS ?=
# A start of a program is half of compiling where Python may not keep what it compiled, and tests start thousands.
export PYTHONDONTWRITEBYTECODE :=
# So is a third of what pip takes to install 7,000 modules, most of which nothing imports: the first import keeps what it compiled.
export PIP_COMPILE := 0

.DEFAULT_GOAL := help
.PHONY: help setup build wheels workflows audit fmt sync lint types arch tidy static test plain check docs sim sim-planted long long-sim long-faults long-engines e2e attacks crash faults interop golden spark classes cluster dashboard operate pictures demo bench ab fuzz ci clean

help: ## this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-11s %s\n", $$1, $$2}'

setup: $(STAMP) ## make .venv with CometMQ and all it needs

$(STAMP): pyproject.toml requirements.lock setup.py $(wildcard src/cometmq/kernel/*.pyx src/cometmq/kernel/*.pxd) src/cometmq/wire/h2/_nghttp2.pyx
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "CometMQ needs Python 3.11 or later: make setup PYTHON=python3.x")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --retries 10 --timeout 60 --no-deps --requirement requirements.lock & packages=$$!; \
		$(BIN)/python -m pip install --quiet --no-deps --editable .; kernel=$$?; wait $$packages && exit $$kernel
	@touch $@

build: setup ## source distribution and wheel, in dist/; fails without the compiled kernel
	$(BIN)/python -m pip install --quiet --no-deps --requirement requirements-release.lock
	rm -rf dist
	COMETMQ_KERNEL=fast $(BIN)/python -m build --outdir dist .
	$(BIN)/python -m twine check --strict dist/*

wheels: setup ## a wheel of each Python of this machine, and of what Maven brings, installed and run without a compiler
	$(BIN)/python -m pip install --quiet --no-deps --requirement requirements-release.lock
	$(PYTEST) tests/wheels -o faulthandler_timeout=0 $(ARGS)

workflows: ## mistakes in .github/workflows (needs Go 1.25)
	go run github.com/rhysd/actionlint/cmd/actionlint@v1.7.12

audit: setup ## known vulnerabilities of the packages in requirements*.lock (asks pypi.org; says if it could not)
	$(BIN)/python -m pip install --quiet --no-deps --requirement requirements-release.lock
	$(BIN)/python tools/audit.py

fmt: setup ## lay out the code and mend what can be mended safely
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix-only --quiet .

sync: setup ## make anew what is made from other files: blocking clients, constants of the kernel
	$(BIN)/python tools/sync_facade.py
	$(BIN)/python tools/sync_layouts.py

lint: setup ## style, mistakes and spelling
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/codespell

types: setup ## mypy, strict; pyright, strict, for what users write: examples and tests/typing
	$(BIN)/python -m pip install --quiet --no-deps --requirement requirements-types.lock
	$(BIN)/mypy
	$(BIN)/basedpyright

arch: setup ## who may import whom, and what the kernel touches
	$(BIN)/lint-imports --no-cache
	$(BIN)/python tools/kernel_wall.py

tidy: setup ## sizes of functions, names, docstrings
	$(BIN)/python tools/tidy.py
	$(BIN)/python tools/sync_facade.py --check
	$(BIN)/python tools/sync_layouts.py --check

test: setup ## unit, property, golden, arch, sim and e2e tests; or those that ARGS names: ARGS="tests/unit -x"
	$(PYTEST) $(THREE) $(if $(filter tests/%,$(ARGS)),,tests/unit tests/property tests/golden tests/arch tests/sim tests/e2e) $(ARGS)

plain: setup ## the package without a C compiler: it builds, and the plain kernel and the HTTP/2 engine jh2 pass
	CC=/bin/false $(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir .cache/plain .
	COMETMQ_KERNEL=reference $(PYTEST) $(TWO) tests/unit/kernel tests/unit/wire tests/unit/store \
		tests/unit/broker tests/unit/proxy tests/golden tests/crash/test_store_power_cut.py tests/e2e/test_grpc_calls.py $(ARGS)

static: lint types arch tidy ## what can be said of the code without running it

check: static test ## what a developer runs before each commit

docs: setup ## the pages as a site, in build/site; fails where a link leads nowhere (needs Chromium, which looks at them)
	$(BIN)/python -m pip install --quiet --no-deps --requirement requirements-docs.lock
	$(BIN)/python tools/docs_site.py
	$(BIN)/zensical build --clean --strict --config-file build/mkdocs.yml
	$(PYTEST) tests/site $(ARGS)

SEED ?= 1
RUNS ?= 100
SCENE ?= storm
sim: setup ## broker groups on a simulated disk, network and clocks: SEED=1 RUNS=100 SCENE=storm
	PYTHONHASHSEED=0 $(BIN)/python -m tests.sim --seed $(SEED) --runs $(RUNS) --scene $(SCENE)

sim-planted: setup ## the first seed of 500 that finds each of the bugs that are planted into simulated groups
	$(BIN)/python -m tests.sim --planted

long: long-sim long-faults long-engines ## what takes hours, with reports in build/long: 2,000 simulations of groups in each scene, 50 rounds of faults, 100,000 connections at both HTTP/2 engines; -k: all, even if one fails

long-sim: setup
	@mkdir -p build/long
	bash -o pipefail -c 'PYTHONHASHSEED=0 $(BIN)/python -m tests.sim --runs 2000 --scene all 2>&1 | tee build/long/sim.txt'

long-faults: setup
	@mkdir -p build/long
	bash -o pipefail -c 'ROUNDS=50 SEED=1 $(PYTEST) tests/faults -s 2>&1 | tee build/long/faults.txt'

long-engines: setup
	@mkdir -p build/long
	COMETMQ_BOTH_ENGINES=1 bash -o pipefail -c '$(PYTEST) tests/fuzz/test_engine_twins.py --frames 5000000 -s -o faulthandler_timeout=0 2>&1 | tee build/long/engines.txt'

e2e: setup ## real processes from the command line
	$(PYTEST) $(THREE) tests/e2e $(ARGS)

golden: setup ## the stores and frames that Java wrote
	$(PYTEST) tests/golden $(ARGS)

attacks: setup ## one bad peer, and a good client beside it that must not notice
	$(PYTEST) $(THREE) tests/attacks $(ARGS)

crash: setup ## kill -9, and what was acknowledged must be there
	$(PYTEST) $(THREE) tests/crash $(ARGS)

faults: setup ## faults of processes, disks and networks under a group that elects its leader, each kind once: ROUNDS=9 SEED=1; as root, with ip and mkfs.ext4; FAULTS=some: without those
	SEED=$(SEED) $(PYTEST) tests/faults -s $(ARGS)

interop: setup ## official clients and Java servers (needs a JDK 17, Maven, Go, and Node with npm); ARGS="-k grpc": those of gRPC
	$(PYTEST) $(THREE) tests/interop $(ARGS)

cluster: setup ## jobs on a standalone Spark cluster, with CometMQ installed from its wheel
	$(PYTEST) tests/cluster -s $(ARGS)

dashboard: setup ## its pages over HTTP and in a browser (needs Chromium); pictures in build/screens
	$(PYTEST) $(TWO) tests/dashboard $(ARGS)

operate: setup ## alerts, the board and what operators see, over real clusters and Prometheus (needs root, and Debian's prometheus and debootstrap)
	$(PYTEST) $(TWO) tests/operate $(ARGS)

pictures: setup ## the pictures of the dashboard that docs/operate shows, taken anew
	$(PYTEST) tests/dashboard/test_pictures.py $(ARGS)
	cp build/screens/docs/*.webp docs/operate/dashboard/

spark: setup $(CLASSES) ## the data sources and jobs on a local Spark
	$(PYTEST) $(TWO) tests/spark $(ARGS)

classes: setup $(CLASSES)

$(CLASSES): requirements.lock examples/spark_classes.py | setup
	XDG_CACHE_HOME=$(CURDIR)/$(@D) $(BIN)/python -m examples.spark_classes
	@touch $@

fuzz: setup ## 150,000 broken frames, 20,000 requests that fit their codes, 2,000 broken gRPC connections, 2,000 at both HTTP/2 engines; ARGS='--frames 1000000': the long run
	$(PYTEST) tests/fuzz $(ARGS)

demo: setup ## 336,776 flights through the broker and a Spark job to a table
	$(BIN)/python -m examples.flights $(ARGS)

bench: setup ## Java, CometMQ and the floor side by side (needs JDK 17, Maven and Go; about 40 minutes)
	$(BIN)/python -m bench.run $(ARGS)

REF ?= 7fa79f5
ab: setup ## an old commit (REF=...) and this tree measured in turns (needs Go)
	$(BIN)/python -m bench.ab --ref $(REF) $(ARGS)

ci: ## every suite, each in its time, as the machine runs it
	bash .ci/run

clean: ## remove what was made here
	rm -rf $(VENV) .cache build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
