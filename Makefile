# The two commands a newcomer needs: `make up` and `make test`. Each installs what it runs into .venv on first use.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Markers: stowplan alone is installed, and with all development tools.
INSTALLED := $(VENV)/.installed
READY := $(VENV)/.ready

# The tests start many processes, which would all compile everything again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: up test collected test-long stories software coverage fuzz-parsers fuzz-openapi wheel wheel-trial python-trials newcomer chart image image-trial docs docs-trial schema page-shots page-speed lint-page troubles lock man check lint types layers kubectl chromium mmdebstrap clean

up: $(INSTALLED)
	$(BIN)/stowplan up --demo

test: $(READY) kubectl chromium
	$(MAKE) --no-print-directory -j2 types lint layers collected
	$(BIN)/pytest -n 4

# Collects the tests once while mypy works on the other core: in a fresh clone each of the four processes would
# compile all modules of tests again, 6 s of CPU each.
collected: $(READY)
	@mkdir -p build
	@$(BIN)/pytest --collect-only -qq > build/collected.txt || { cat build/collected.txt; exit 1; }

# The property tests with TIMES times the examples that they ask for (a run of the suite has 0.6 times as many), all
# recorded facts of 1.37, and more kills of leaders. Other examples each time: one that fails is printed with a blob.
TIMES ?= 10
test-long: $(READY)
	STOWPLAN_LONG_TESTS=$(TIMES) STOWPLAN_KILLS=$(TIMES) $(BIN)/pytest -n 4 tests/server/process/test_failover.py \
	  $$(grep -rlw --include='test_*.py' 'from effort import' tests)

# Stories recorded from kube-controller-manager, in real time against `stowplan up`: about two minutes.
stories: $(READY)
	$(BIN)/pytest -m stories tests/localcluster/controllers

# Manifests of other projects in the folder FROM, each project on a fresh cluster: docs/software.md.
FROM ?= software
software: $(INSTALLED)
	$(BIN)/stowplan lab software $(FROM)

# The share of lines that tests reach, also in the processes they start; dist/coverage shows the lines.
coverage: $(READY) kubectl chromium
	$(BIN)/pytest -n 4 --cov --cov-report=
	$(BIN)/coverage html --quiet
	$(BIN)/coverage report --format=total

# Parsers fed with arbitrary bytes, chosen by coverage, and the API server with requests made from its documents.
# The tools are in a virtualenv of their own.
FUZZ := build/fuzz
SECONDS ?= 60
$(FUZZ)/.ready: pyproject.toml
	$(PYTHON) -m venv $(FUZZ)
	$(FUZZ)/bin/python -m pip install --quiet --editable '.[fuzz]'
	touch $@

fuzz-parsers: $(FUZZ)/.ready
	$(FUZZ)/bin/stowplan lab fuzz --target all --seconds $(SECONDS)

fuzz-openapi: $(FUZZ)/.ready
	$(FUZZ)/bin/stowplan lab fuzz --openapi all --seconds $(SECONDS)

# The wheel and the sdist, in dist/.
wheel: $(READY)
	rm -f dist/*.whl dist/*.tar.gz
	$(BIN)/hatchling build -d dist

# The wheel in an empty virtualenv of each Python, used as a user would. Downloads the dependencies.
PYTHONS ?= $(PYTHON)
wheel-trial: wheel
	$(BIN)/python tests/deploy/trial.py dist/*.whl $(PYTHONS)

# The way of a new user, as the README has it, timed.
newcomer: wheel kubectl
	$(BIN)/python tests/deploy/newcomer.py dist/*.whl

# `make wheel-trial` on Pythons that this machine does not have, from other Debian releases. Needs root or user namespaces.
DEBIAN_PYTHONS ?= 3.13 3.14
python-trials: wheel mmdebstrap
	$(BIN)/python tests/deploy/pythons.py dist/*.whl $(DEBIAN_PYTHONS)

# The Helm chart, checked and packed, in dist/. Copied first: Helm complains about links to the dashboard and the rules.
chart: $(READY)
	rm -rf build/chart
	mkdir -p build
	cp -RL deploy/chart build/chart
	$(BIN)/helm lint --strict --quiet build/chart
	$(BIN)/helm package --destination dist build/chart

# The image without Docker, as an OCI layout in dist/image, with its bill of materials. Needs root or user namespaces.
image: wheel mmdebstrap
	rm -rf dist/image
	$(BIN)/python deploy/image/build.py dist/*.whl --output dist/image

# What is in the image, and `stowplan run` in it against the embedded API server. Needs root.
image-trial: image
	$(BIN)/python tests/deploy/image_trial.py dist/image

# The JSON schema of explanations and other documents, as docs/ publishes it.
schema: $(READY)
	$(BIN)/python -c 'from stowplan.explain.document.schema import schema_text as text; print(text(), end="")' \
	    > docs/decision-document.schema.json

# Pictures of every view of the page, in windows of three sizes, light and dark, in build/page-shots.
page-shots: $(READY) chromium
	PYTHONPATH=tests $(BIN)/python -m explain.web.shots

# CPU of the page in Chromium with 5,000 nodes and 50,000 pods, by view; fails above its limits. A minute.
page-speed: $(READY) chromium
	PYTHONPATH=tests $(BIN)/python -m explain.web.speed

# The page's modules, checked (ESLint, types by TypeScript from JSDoc) and formatted as Prettier does. Needs Node.js; installs the tools into build/.
lint-page:
	mkdir -p build/page-tools
	cp package.json eslint.config.mjs .prettierrc.json tsconfig.json build/page-tools
	npm --prefix build/page-tools install --no-audit --no-fund --silent
	ln -sfn ../../src build/page-tools/src
	cd build/page-tools && npx eslint src/stowplan/explain && npx tsc && npx prettier --check "src/stowplan/explain/**/*.js"

# docs/troubles.md: the causes that keep pods from running, with the answers to them.
troubles: $(READY)
	PYTHONPATH=tests $(BIN)/python -m troubles --page

# The documentation as a site, in dist/site. Warnings are errors: a link that leads nowhere, a page that is not in it.
docs: $(READY)
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	$(BIN)/python site/stage.py stage
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict --config-file build/mkdocs.yml
	$(BIN)/python site/stage.py check

# The same, opened in a browser from the disk: links and search.
docs-trial: docs chromium
	$(BIN)/python tests/docs/site_trial.py dist/site

# Manual pages of all commands, in dist/man.
man: $(READY)
	$(BIN)/stowplan man --directory dist/man

# The newest versions that pyproject.toml allows, with hashes: requirements.lock to run, requirements-dev.lock for CI.
LOCKING = $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-annotate \
  --custom-compile-command "make lock" pyproject.toml
lock: $(READY)
	$(BIN)/python -m pip install --quiet uv
	$(LOCKING) -o requirements.lock
	$(LOCKING) --extra dev --extra docs -o requirements-dev.lock

# The tests talk to the embedded cluster with real kubectl.
kubectl:
	@command -v kubectl >/dev/null || { \
	  echo "installing kubectl (Debian package kubernetes-client)"; \
	  SUDO=$$([ "$$(id -u)" = 0 ] || echo sudo); \
	  $$SUDO apt-get update -qq && $$SUDO apt-get install -y -qq kubernetes-client >/dev/null; }

# The image is made of Debian's packages.
mmdebstrap:
	@command -v mmdebstrap >/dev/null || { \
	  echo "installing mmdebstrap (Debian package)"; \
	  SUDO=$$([ "$$(id -u)" = 0 ] || echo sudo); \
	  $$SUDO apt-get update -qq && $$SUDO apt-get install -y -qq mmdebstrap debian-archive-keyring >/dev/null; }

# The page is tested in a real browser.
chromium:
	@command -v chromium >/dev/null || { \
	  echo "installing chromium (Debian package)"; \
	  SUDO=$$([ "$$(id -u)" = 0 ] || echo sudo); \
	  $$SUDO apt-get update -qq && $$SUDO apt-get install -y -qq chromium >/dev/null; }

check: $(READY)
	$(MAKE) --no-print-directory -j2 types lint layers

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

layers: $(READY)
	$(BIN)/lint-imports

# `make test LOCK=requirements-dev.lock` installs exactly the versions of the lock file.
LOCK ?=
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet
$(INSTALLED): pyproject.toml $(LOCK)
	$(PYTHON) -m venv $(VENV)
	$(if $(LOCK),$(PIP) --require-hashes -r $(LOCK))
	$(PIP) --no-compile --editable .
	touch $@

# Adds to what `make up` installed, so either command may come first.
$(READY): $(INSTALLED)
	$(PIP) --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
