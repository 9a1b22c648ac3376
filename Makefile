# make run    set everything up, serve the demo           make test   set everything up, run all tests
# make test-java  the tests that need Java, which must then be there (make test skips them, and says so, where there is none)
# make lint   ruff and mypy                               make check  lint and test
# make sbom   build/sbom.cdx.json, what is installed, and whether it is known to be vulnerable; says so where it cannot be looked up
# make clean  remove the virtual environment and caches
#
# PYTHON=python3.12 chooses an interpreter, PORT=9000 a port. What is set up already is not set up again.

PYTHON ?= python3
VENV := .venv
PIP := $(VENV)/bin/python -m pip --disable-pip-version-check

.PHONY: run test test-java lint check sbom clean
.DELETE_ON_ERROR:

run: $(VENV)/.for-running
	@exec $(VENV)/bin/sparlance demo $(if $(PORT),--port $(PORT))

test: $(VENV)/.for-development
	$(VENV)/bin/python -m pytest -q -n auto --maxprocesses 4 --dist loadfile
	@command -v java >/dev/null 2>&1 && command -v mvn >/dev/null 2>&1 || \
	    echo "SKIPPED, no Java here (JDK 17, Maven): all tests with the RDF4J Server, its Java client, and Fuseki."

test-java: $(VENV)/.for-development
	SPARLANCE_REQUIRE_JAVA=1 $(VENV)/bin/python -m pytest -q -m java

lint: $(VENV)/.for-development
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy

check: lint test

sbom: $(VENV)/.for-development
	@sh .ci/sbom $(VENV) build

clean:
	rm -rf $(VENV) build/audit-tools .mypy_cache .ruff_cache .pytest_cache

$(VENV)/.made:
	@sh .ci/make-venv "$(PYTHON)" $(VENV)
	@touch $@

$(VENV)/.for-running: $(VENV)/.made pyproject.toml
	@echo "Installing what Sparlance needs (once; the models' runtime is large) ..."
	$(PIP) install --editable '.[nl]'
	@touch $@

$(VENV)/.for-development: $(VENV)/.for-running
	$(PIP) install --editable '.[nl,dev]'
	@touch $@
