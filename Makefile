# Each target makes its own environment in .venv; PYTHON names the interpreter.
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
BENCH := benchmarks
# each process takes neighboring tests, which share what they compute
PARALLEL := -q -n 2 --dist worksteal
# what is compiled
SOURCES := setup.py pyproject.toml $(shell find sksstruct -name '*.pyx' -o -name '*.pxd' -o -name '*.h')
# a warning of Cython is an error
export SKSSTRUCT_WARNINGS := error

.PHONY: demo build test test-all test-floors test-newest lint doc papers benchmarks fuzz sanitize clean

demo: $(VENV)/demo
	@echo "== training on handwritten years (less than a minute)"
	@mkdir -p demo
	@MPLBACKEND=Agg $(PY) -W ignore::UserWarning -c "\
	import runpy, matplotlib.pyplot as plt; \
	runpy.run_path('examples/plot_digit_strings.py'); \
	plt.savefig('demo/digit_strings.png', dpi=110)"
	@echo "== wrote demo/digit_strings.png"

# What is quick, on every kernel, model, solver and estimator
test: $(VENV)/test
	@echo "== running the quick tests (two to five minutes on two cores)"
	$(PY) -m pytest $(PARALLEL) -m "not packaging and not slow"

# The slow tests on top, packaging among them, and bounds checks. The wheel that the tests
# of packaging build has these: with it the kernels run in their own quick tests, and with
# the instructions that every processor has, those of BLAS too: no test may depend on
# the last bits.
test-all: export SKSSTRUCT_DIST := $(CURDIR)/build/dist
test-all: test
	@echo "== running the slow tests (five to ten minutes on two cores)"
	$(PY) -m pytest $(PARALLEL) -m "packaging or slow"
	@echo "== the tests of kernels with bounds checks on, from the wheel"
	rm -rf build/debug && mkdir -p build/debug
	$(PY) -m zipfile -e build/dist/*.whl build/debug
	cp -r tests pyproject.toml build/debug/
	cd build/debug && $(CURDIR)/$(PY) -c "import sksstruct; assert 'build/debug' in sksstruct.__file__"
	cd build/debug && SKSSTRUCT_SIMD=baseline OPENBLAS_CORETYPE=Prescott $(CURDIR)/$(PY) -m pytest $(PARALLEL) \
	  -m "not slow" $(OF_KERNELS)

# Each kernel in the tests that are made for it. Solvers and models in Python, times and
# instruction sets are not theirs.
OF_KERNELS := tests/inference tests/projections tests/feature_extraction tests/utils/test_pointers.py \
  tests/models/test_models.py tests/models/test_structure_oracles.py tests/models/test_smooth_losses.py \
  tests/models/test_best_sets.py tests/models/test_changes.py tests/solvers/test_bcfw.py tests/solvers/test_gdmm.py \
  tests/solvers/test_gdmm_graphs.py tests/solvers/test_sdca.py tests/solvers/test_stochastic.py \
  tests/solvers/test_partitioned.py tests/models/test_binary.py tests/models/test_segments.py \
  tests/models/test_graph_inputs.py tests/models/test_dependencies.py tests/datasets tests/estimators/test_chain_constraints.py \
  tests/estimators/test_chain_many_labels.py tests/estimators/test_multilabel_losses.py tests/estimators/test_streaming.py \
  --ignore=tests/inference/map/test_time.py --deselect tests/models/test_models.py::test_optimum \
  -k "not any_combination"

# The oldest supported versions, in an environment of their own: a smoke test of
# estimators and models.
test-floors: $(VENV)/built build/floors/ready
	@echo "== the smoke tests with the oldest supported versions"
	build/floors/bin/python -m pytest $(PARALLEL) -p no:cacheprovider $(SMOKE)

# The newest supported Python, if there is one beside $(PYTHON), with the newest versions
# of everything. Every warning is an error in tests, those of deprecation among them.
NEWEST := build/newest
SMOKE := -m "not packaging and not slow" -k "not scikit_learn and not test_optimum" \
  tests/datasets tests/factor_graphs tests/feature_extraction tests/metrics tests/models/test_models.py \
  $(patsubst %,tests/estimators/test_%.py,calibrated json label_forms linear_ssvc lp_map multilabel segment_crf ssvm tagger)
test-newest: $(VENV)/built
	@newest=$$(.ci/newest-python $(PYTHON)) && if [ -z "$$newest" ]; then \
	  echo "== no newer Python than $$($(PYTHON) -V) was found: the newest versions are not tested"; \
	else $(MAKE) $(NEWEST)/ready NEWEST_PYTHON=$$newest \
	  && echo "== the smoke tests with $$($(NEWEST)/bin/python -V) and the newest versions" \
	  && $(NEWEST)/bin/python -m pip list 2>/dev/null | grep -iE '^(numpy|scipy|scikit-learn|pandas) ' \
	  && $(NEWEST)/bin/python -m pytest $(PARALLEL) -p no:cacheprovider $(SMOKE); fi

# The C code is there from the other build; only the compiler runs again.
$(NEWEST)/ready: $(SOURCES)
	@echo "== compiling for the newest Python"
	test -x $(NEWEST)/bin/python || $(NEWEST_PYTHON) -m venv $(NEWEST)
	$(NEWEST)/bin/python -m pip install -q "setuptools>=77" "cython>=3.1.2,<3.4"
	$(NEWEST)/bin/python setup.py -q build_ext --inplace
	SKSSTRUCT_COMPILED=1 $(NEWEST)/bin/python -m pip install -q --no-build-isolation -e .
	$(NEWEST)/bin/python -m pip install -q pytest pytest-xdist hypothesis pandas matplotlib rich
	@touch $@

# The sources of CRFsuite, with which a C program of the documentation is tested.
build/crfsuite:
	$(PYTHON) -m pip download -q --no-deps --no-binary python-crfsuite -d build python-crfsuite
	mkdir $@ && tar -xzf build/python_crfsuite-*.tar.gz --strip-components=1 -C $@

build/floors/ready: floors.txt
	$(PYTHON) -m venv build/floors
	build/floors/bin/python -m pip install -q -r floors.txt
	build/floors/bin/python -m pip install -q -c floors.txt pytest pytest-xdist hypothesis matplotlib rich
	@touch $@

# Look for crashes, hangs and wrong answers: make fuzz SECONDS=600 SEED=1 CAMPAIGNS=states
SECONDS := 60
fuzz: $(VENV)/test
	$(PY) -W ignore -m tests.fuzz $(CAMPAIGNS) --seconds $(SECONDS) $(if $(SEED),--seed $(SEED))

# A job of every night, as `make fuzz` is: the kernels' tests and a minute of fuzzing,
# built with the compiler's sanitizers in a copy: addresses and undefined behavior, or SANITIZE=thread, for the tests that use
# threads. Needs gcc; takes an hour, or ten minutes.
SANITIZE := address,undefined
SANITIZED := LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libstdc++.so)" \
  PYTHONMALLOC=malloc ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 UBSAN_OPTIONS=halt_on_error=1
# one test looks at the clock
SANITIZED_TESTS := tests/inference tests/projections tests/models tests/utils \
  --deselect tests/inference/map/test_belief_propagation.py::test_large_budgets
ifeq ($(SANITIZE),thread)
# the threads of OpenBLAS are not built with it, so that it cannot see when they wait
SANITIZED := LD_PRELOAD=$$(gcc -print-file-name=libtsan.so) TSAN_OPTIONS=suppressions=tsan.txt
SANITIZED_TESTS := tests -k "jobs or thread or parallel or batch"
endif
sanitize: $(VENV)/test
	rm -rf build/sanitize && mkdir -p build/sanitize
	cp -r sksstruct tests setup.py pyproject.toml README.md LICENSE build/sanitize/
	find build/sanitize -name '*.so' -delete
	echo "race:openblas" > build/sanitize/tsan.txt
	cd build/sanitize && SKSSTRUCT_SANITIZE=$(SANITIZE) $(CURDIR)/$(PY) setup.py -q build_ext --inplace > build.log 2>&1 || { cat build.log; exit 1; }
	cd build/sanitize && export $(SANITIZED) \
	  && $(CURDIR)/$(PY) -m pytest -q -p no:cacheprovider -s $(SANITIZED_TESTS) \
	  $(if $(filter thread,$(SANITIZE)),,&& $(CURDIR)/$(PY) -W ignore -m tests.fuzz --seconds 60)

lint: $(VENV)/lint
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	PATH=$(CURDIR)/$(VENV)/bin:$$PATH $(VENV)/bin/cython-lint sksstruct
	$(VENV)/bin/mypy

doc: $(VENV)/doc
	@echo "== building the documentation, doc/_build/html/index.html"
	$(PY) -m sphinx -j 2 -W --keep-going -q -b html doc doc/_build/html
	$(PY) doc/_findable.py doc/_build/html
	$(PY) doc/_links.py doc/_build/html

# The page on the papers' claims has what this finds. Data: SKSSTRUCT_DATA.
papers: $(VENV)/built $(VENV)/installed
	@echo "== the papers' claims at full size (about twenty minutes on one core)"
	for script in gap_bcfw bmrm_pragam gdmm_map gdmm_learning casimir; do \
	  $(PY) examples/papers/$$script.py --full --write doc/papers || exit 1; done

# QUICK=1: one table in a few minutes, which needs no data folder. Two others need arguments
# or gigabytes of disk.
SCRIPTS := $(if $(QUICK),$(BENCH)/bench_quick.py,$(filter-out %/bench_quick.py %/bench_out_of_core.py \
  %/bench_scaling.py,$(wildcard $(BENCH)/bench_*.py)))
benchmarks: $(VENV)/benchmark
	for script in $(SCRIPTS); do $(PY) $$script || exit 1; done

$(VENV)/bin/python:
	@echo "== making an environment in $(VENV)"
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install -q "setuptools>=77" "cython>=3.1.2,<3.4"

# Built in place, so that examples and tests see the sources, and what has not changed is
# not compiled again.
build: $(VENV)/built
$(VENV)/built: $(VENV)/bin/python $(SOURCES)
	@echo "== compiling the kernels that have changed (all of them: two minutes on two cores)"
	$(PY) setup.py -q build_ext --inplace
	@touch $@

# Finds all modules in place.
$(VENV)/installed: pyproject.toml | $(VENV)/built
	@echo "== installing what they need"
	SKSSTRUCT_COMPILED=1 $(PY) -m pip install -q --no-build-isolation -e .
	@touch $@

$(VENV)/demo: $(VENV)/installed | $(VENV)/built
	$(PY) -m pip install -q "matplotlib>=3.6.1"
	@touch $@

# The package is there: installed from the folder it would be compiled again.
$(VENV)/test $(VENV)/doc $(VENV)/benchmark: $(VENV)/%: $(VENV)/installed | $(VENV)/built
	@echo "== installing what '$*' needs"
	$(PY) -m pip install -q "sksstruct[$*]"
	@touch $@

$(VENV)/lint: $(VENV)/bin/python
	$(PY) -m pip install -q ruff==0.17.5 cython-lint==0.22.0 mypy==2.4.1 "numpy>=1.24.1"
	@touch $@

clean:
	rm -rf $(VENV) build dist demo doc/_build doc/auto_examples doc/generated doc/api.rst *.egg-info
	find sksstruct -name '*.so' -delete -o -name '*.c' -delete -o -name '*.html' -delete
