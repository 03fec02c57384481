# What people run: `make demo` and `make test`. Everything that they need is installed into .venv, and nothing twice.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# A venv's bin is not on PATH when only its python is run, and mpiexec is found there.
export PATH := $(CURDIR)/$(BIN):$(PATH)
# IPython warns of another venv that somebody has activated, and a warning fails a test.
unexport VIRTUAL_ENV
# Without byte code each process of each cluster compiles our modules again: a tenth of a start.
unexport PYTHONDONTWRITEBYTECODE
# It would have C write at once what it prints, which it does not for most users.
unexport PYTHONUNBUFFERED
# One more than two cores: tests wait for ranks, browsers and each other, which leaves a sixth of the cores idle otherwise.
WORKERS ?= 3
FRAMEWORKS := .venv-frameworks
LOWEST := .venv-lowest
LOWEST_TESTS ?= tests/pure tests/ranks
# Of pyenv, whose command on PATH fails for a version that is not the chosen one, or of PATH.
LOWEST_PYTHON ?= $(or $(lastword $(sort $(wildcard $(HOME)/.pyenv/versions/3.10.*/bin/python))),$(shell command -v python3.10))
DOCS := .venv-docs
# Each worker has ranks of its own, which compute: with more of them than cores, times say nothing.
FRAMEWORK_WORKERS ?= 2
# Where the machine finds no CPU build, the one that it finds will do.
CPU_TORCH ?= torch==2.13.0+cpu
SAY = @printf '\n== %s\n'
DASHBOARD := jupyter_ddl/views/static/dashboard.js
PANEL := labextension/built

# What a command that failed has made is not whole.
.DELETE_ON_ERROR:

.PHONY: demo ready docs test test-slow test-systems test-systems-slow test-frameworks test-frameworks-slow test-wheel test-lowest lowest-python check lab pictures bench soak clean dashboard schema translations notice sbom wheel

# The panel is built on the core that pip leaves idle.
demo:
	@$(MAKE) --no-print-directory -j 2 ready
	$(SAY) "training on 2 ranks: notebooks/01-from-one-gpu-to-all.ipynb"
	@$(BIN)/python -m jupyter_ddl.cli.demo -n 2

ready: $(VENV)/.horovod $(DASHBOARD)
	@:

test: $(VENV)/.test $(VENV)/.horovod $(DASHBOARD) $(VENV)/.panel
	$(SAY) "testing"
	$(BIN)/python -m pytest -m "not slow and not systems and not frameworks and not release" -n $(WORKERS) --dist loadfile

# All servers of a JupyterHub take DDL_TEST_JUPYTERHUB, a python with jupyterhub, and configurable-http-proxy on PATH.
test-slow: $(VENV)/.test $(VENV)/.horovod $(DASHBOARD) $(VENV)/.panel
	$(SAY) "testing what takes minutes"
	$(BIN)/python -m pytest -m "slow and not systems and not frameworks and not release" --timeout 3000

# Ranks on several hosts, which are made of namespaces on this machine; what cannot be made is said and skipped.
test-systems: $(VENV)/.test $(VENV)/.horovod
	$(SAY) "testing on several hosts"
	@tests/systems/install.sh
	$(BIN)/python -m pytest -m "systems and not slow" -rs tests/systems

# Ranks in an image take DDL_TEST_IMAGE, or ddl.sif in this folder, and Apptainer.
# Those of another MPI take DDL_TEST_MPICH or DDL_TEST_INTEL_MPI, its mpiexec.
test-systems-slow: $(VENV)/.test $(VENV)/.horovod
	$(SAY) "testing on several hosts what takes minutes"
	@tests/systems/install.sh
	$(BIN)/python -m pytest -m "systems and slow" -rs --timeout 1200 tests/systems

# PyTorch and JAX on ranks that have no TensorFlow.
test-frameworks: $(FRAMEWORKS)/.test
	$(SAY) "testing PyTorch and JAX"
	PATH="$(CURDIR)/$(FRAMEWORKS)/bin:$$PATH" $(FRAMEWORKS)/bin/python -m pytest -m "frameworks and not slow" \
		-n $(FRAMEWORK_WORKERS) --dist loadfile tests/frameworks

test-frameworks-slow: $(FRAMEWORKS)/.test
	$(SAY) "testing PyTorch and JAX what takes minutes"
	PATH="$(CURDIR)/$(FRAMEWORKS)/bin:$$PATH" $(FRAMEWORKS)/bin/python -m pytest -m "frameworks and slow" --timeout 1200 tests/frameworks

# The sdist and the wheel, in fresh environments of each Python from 3.10 to 3.13 that is found on PATH or in pyenv; and
# images, by each of docker, podman, buildah and apptainer that works. DDL_TEST_BASE names what those begin from.
test-wheel: $(VENV)/.test $(DASHBOARD) $(VENV)/.panel
	$(SAY) "testing the sdist and the wheel in fresh environments"
	$(BIN)/python -m pytest -m release -rs tests/release

# Python 3.10 and the lowest versions of what pyproject.toml names, with a Horovod that is built there; without browsers.
test-lowest: $(LOWEST)/.test $(DASHBOARD)
	$(SAY) "testing with the lowest versions"
	PATH="$(CURDIR)/$(LOWEST)/bin:$$PATH" $(LOWEST)/bin/python -m pytest -m "not slow and not systems and not frameworks and not release" \
		-n $(WORKERS) --dist loadfile $(LOWEST_TESTS)

lowest-python:
	@test -x "$(LOWEST_PYTHON)" || { echo "The lowest versions take Python 3.10. Received: none on PATH or in pyenv. Run make LOWEST_PYTHON=/path/to/python3.10 test-lowest."; exit 1; }

check: $(VENV)/.test $(DASHBOARD)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	@if [ -e $(DASHBOARD) ]; then cd labextension && npm run --silent check && npm test --silent; fi

# What of events.py other languages read.
schema: $(VENV)/.test
	$(BIN)/python labextension/schema/generate.py

# What the panel's catalogues lack.
translations: $(VENV)/.test
	$(BIN)/python labextension/translations/catalogues.py

dashboard: $(DASHBOARD)

# What of other packages npm bundles, with their licences.
notice:
	cd labextension && npm ci --silent --no-audit --no-fund && npm run --silent build -- --notice

# What the wheel's bill of materials says: it is made of NOTICE and pyproject.toml.
sbom: $(VENV)/.test
	$(BIN)/python labextension/sbom.py

# What the images of containers/ install.
wheel: $(DASHBOARD) | $(VENV)/bin/python
	@rm -f dist/jupyter_ddl-*.whl
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .

lab: $(VENV)/.lab $(VENV)/.horovod $(DASHBOARD) $(VENV)/.panel
	$(BIN)/jupyter lab notebooks

# Of every view, at each size and in both themes, to be looked at; what the docs show is written into docs/images.
pictures: $(VENV)/.test $(VENV)/.horovod $(DASHBOARD) $(VENV)/.panel
	$(BIN)/python tests/browser/pictures.py build/pictures

# The documentation as a site, with a reference made from the code: no TensorFlow is needed, and nothing is loaded from a network.
docs: $(DOCS)/.docs
	$(SAY) "building the documentation: build/docs/index.html"
	$(DOCS)/bin/python -m sphinx --quiet --fail-on-warning --keep-going docs build/docs

bench: $(VENV)/.bench $(VENV)/.horovod $(DASHBOARD)
	@status=0; for name in start rebuild standby faults_peers dispatch dispatch_wide throughput training auto telemetry log_storm fan_in dashboard_browser hub_latency hosts first_minute \
			panel_load memory_sharding memory_remedies memory_watch release_time class_of_ten; do \
		printf '\n== %s\n' benchmarks/$$name.py; $(BIN)/python -m benchmarks.$$name || status=1; done; exit $$status

# 200 cells with random faults, and 100 of random sabotage: 20 minutes each at most.
soak: $(VENV)/.test $(VENV)/.horovod
	$(BIN)/python -m benchmarks.soak
	$(BIN)/python -m benchmarks.fuzz --seed $$(date +%j)

clean:
	rm -rf $(VENV) $(FRAMEWORKS) $(LOWEST) $(DOCS) docs/reference build dist labextension/node_modules labextension/lib $(PANEL) jupyter_ddl/views/static

$(VENV)/bin/python:
	$(SAY) "making $(VENV)"
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(None if (3, 10) <= v <= (3, 13) else \
		f"Python must be 3.10 to 3.13. Received: {v[0]}.{v[1]}. Run make PYTHON=python3.12 (or another of these).")'
	$(PYTHON) -m venv $(VENV)

# Byte code is made of what is imported, when it is: that of all takes pip half of its time here.
$(VENV)/.demo: pyproject.toml | $(VENV)/bin/python
	$(SAY) "installing jupyter_ddl, TensorFlow and MPI into $(VENV) (once; 1 to 5 minutes)"
	$(BIN)/python -m pip install --quiet --no-compile --editable '.[demo]'
	@touch $@

$(VENV)/.lab: $(VENV)/.demo
	$(SAY) "installing JupyterLab into $(VENV) (once)"
	$(BIN)/python -m pip install --quiet --editable '.[demo,lab,modernise]'
	@touch $@

# What others' code is warned of when it is compiled would fail a test that imports it first. Templates are no Python yet.
$(VENV)/.test: $(VENV)/.demo
	$(SAY) "installing what the tests need into $(VENV) (once)"
	$(BIN)/python -m pip install --quiet --no-compile --editable '.[test,boosting,snapml]'
	@$(BIN)/python -m compileall -qq -j 0 -x '/templates?/' $(VENV)/lib
	@touch $@

$(VENV)/.bench: $(VENV)/.test
	$(SAY) "installing what the benchmarks need into $(VENV) (once)"
	$(BIN)/python -m pip install --quiet --editable '.[bench]'
	@touch $@

$(FRAMEWORKS)/.test: pyproject.toml
	$(SAY) "making $(FRAMEWORKS) with PyTorch and JAX (once; 1 to 3 minutes)"
	@test -x $(FRAMEWORKS)/bin/python || $(PYTHON) -m venv $(FRAMEWORKS)
	$(FRAMEWORKS)/bin/python -m pip install --quiet '$(CPU_TORCH)' || $(FRAMEWORKS)/bin/python -m pip install --quiet torch
	$(FRAMEWORKS)/bin/python -m pip install --quiet --editable '.[torch,test-frameworks]'
	@touch $@

# pip cannot choose the lowest versions. What the tests themselves take must not raise what is chosen; and the pyparsing
# of today warns of matplotlib 3.8, for which warnings are errors here.
$(LOWEST)/.test: pyproject.toml
	$(SAY) "making $(LOWEST) with the lowest versions, and a Horovod for them (once; 1 to 5 minutes)"
	@$(MAKE) --no-print-directory lowest-python
	@test -x $(LOWEST)/bin/python || $(LOWEST_PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet uv
	$(LOWEST)/bin/uv pip install --quiet --system-certs --python $(LOWEST) --resolution lowest-direct --editable '.[demo,lab,modernise]' 'pyparsing>=3.2,<3.3'
	$(LOWEST)/bin/uv pip freeze --quiet --python $(LOWEST) --exclude-editable >$(LOWEST)/chosen.txt
	$(LOWEST)/bin/uv pip install --quiet --system-certs --python $(LOWEST) --constraint $(LOWEST)/chosen.txt --editable '.[test]'
	PATH="$(CURDIR)/$(LOWEST)/bin:$$PATH" $(LOWEST)/bin/python -m jupyter_ddl.cli build-horovod
	@touch $@

$(DOCS)/.docs: pyproject.toml
	$(SAY) "making $(DOCS) with Sphinx (once; half a minute)"
	@test -x $(DOCS)/bin/python || $(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python -m pip install --quiet --editable '.[docs]'
	@touch $@

# The command itself leaves a Horovod that works alone, and keeps what it built for the next venv.
$(VENV)/.horovod: $(VENV)/.demo
	$(SAY) "Horovod for the TensorFlow that is installed (once; 1 to 3 minutes)"
	$(BIN)/python -m jupyter_ddl.cli build-horovod
	@touch $@

# The panel of a checkout is the one that was built there: a link, which is no copy that falls behind.
$(VENV)/.panel: Makefile | $(VENV)/bin/python
	@mkdir -p $(VENV)/share/jupyter/labextensions
	@ln -sfn $(CURDIR)/$(PANEL) $(VENV)/share/jupyter/labextensions/jupyter-ddl
	@touch $@

# Without Node.js all else works: cells train, and a terminal shows their figures.
$(DASHBOARD): labextension/package-lock.json labextension/package.json labextension/build.mjs labextension/notice.mjs labextension/webpack.config.cjs NOTICE \
		$(shell find labextension/src labextension/settings -type f)
	$(SAY) "the dashboard and the panel (some seconds)"
	@if command -v npm >/dev/null; then cd labextension && npm ci --silent --no-audit --no-fund && npm run --silent build; \
		else echo "There is no npm (Node.js 20 or newer), so the dashboard and JupyterLab's panel are left out."; fi
