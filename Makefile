# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Where this is set, each command would compile all that it imports, torch too, anew.
unexport PYTHONDONTWRITEBYTECODE
# Two processes on two cores: one thread each.
ONE_THREAD := OMP_NUM_THREADS=1
ON_STAND_IN = $(ONE_THREAD) PATH=$(CURDIR)/$(BIN):$$PATH PYTHONPATH=$(CURDIR)/tests/fixtures/stand_in
# The NMT system varies fastest, so the first two jobs train one each. Smaller than `experiment=demo`:
# proxies learn from 320 of 900 sentences and are tested on 200 of 400. Systems train in larger
# batches, and without dropout, with which the Transformer learns more slowly.
DEMO := experiment=demo rules.train_sentences=320 corpus.test=200 nmt.sizes.dropout=0.0 \
	nmt.training.batch_tokens=700 nmt.training.warmup_steps=250 learning_rate.transformer=4.0e-3 \
	launcher=joblib nmt=transformer_128,rnn_search_128

.DEFAULT_GOAL := help
.PHONY: help install cluster demo trial test test-shared test-long test-slow docs leaderboard device lint bench fairseq clean

help: ## show this
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-11s %s\n", $$1, $$2}'

# Python compiles what it imports; to compile every file of the packages takes a minute more.
$(VENV)/.installed: pyproject.toml
	test -d $(VENV) || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --no-compile 'torch>=2.6,<2.14'
	$(BIN)/pip install --quiet --no-compile -e '.[dev]'
	touch $@

install: $(VENV)/.installed ## make .venv and install everything into it

demo: install ## train two NMT systems and all proxies on the toy corpus, print the table (some five minutes)
	$(ONE_THREAD) $(BIN)/python train.py -m explainer=attention,gradient_norm,weighted_gradient,\
	prediction_difference,lexicon,code,nearest,random,gold_alignment $(DEMO)
	$(BIN)/python evaluate.py

# Ray and submitit are large, and `make test` passes without them: their tests skip then.
$(VENV)/.cluster: $(VENV)/.installed
	$(BIN)/pip install --quiet --no-compile -e '.[cluster,slurm]'
	touch $@

cluster: $(VENV)/.cluster ## install what several processes need, in the environment

trial: install ## the trial of judges on one pair of twins, and its table (minutes)
	$(ONE_THREAD) $(BIN)/python train.py -m experiment=trial launcher=joblib
	$(BIN)/python evaluate.py experiment=trial

# The older of the two transformers that are supported, beside the newer one and in front of it.
$(VENV)/transformers4: $(VENV)/.installed
	rm -rf $@
	$(BIN)/pip install --quiet --no-compile --no-deps --target $@ \
		'transformers==4.57.*' 'tokenizers>=0.22,<0.23' 'huggingface-hub>=0.34,<1'

test: install ## run the tests (five and a half to eight minutes on two idle cores)
	$(ONE_THREAD) $(BIN)/python -m pytest -n 2 --dist worksteal -m 'not long and not slow'

test-shared: install ## run the tests of real data, in ../shared/data
	$(ONE_THREAD) $(BIN)/python -m pytest -n 2 --dist worksteal -m 'shared and not long and not slow'

test-long: install $(VENV)/transformers4 ## run the tests that take many seconds each, and older packages
	$(ONE_THREAD) $(BIN)/python -m pytest -n 2 --dist worksteal -m long
	$(ONE_THREAD) PYTHONPATH=$(VENV)/transformers4 $(BIN)/python -m pytest -n 2 --dist worksteal \
		tests/nmt/test_huggingface.py tests/nmt/test_causal_lm.py tests/nmt/test_causal_blocks.py -k 'not pipeline'

test-slow: install ## run the tests that take minutes each (hours)
	$(ONE_THREAD) $(BIN)/python -m pytest -m slow

docs: install ## build the site in build/site, with pictures and notebooks, and check it
	$(ONE_THREAD) $(BIN)/python docs/site/build.py
	$(ONE_THREAD) XNMT_BENCH_SITE=build/site $(BIN)/python -m pytest -q tests/test_site.py

leaderboard: install ## one page of all bundles of a folder: make leaderboard BUNDLES=FOLDER
	@test -n "$(BUNDLES)" || { echo 'make leaderboard BUNDLES=FOLDER'; exit 2; }
	$(BIN)/xnmt leaderboard $(BUNDLES) build/leaderboard.html

device: install ## run the tests that need a GPU on a stand-in for one (needs a C++ compiler)
	$(BIN)/pip install --quiet ninja
	$(ON_STAND_IN) $(BIN)/python -c "from xnmt_bench.device import KINDS; assert 'stand_in' in KINDS"
	$(ON_STAND_IN) $(BIN)/python -m pytest tests/test_device.py -k 'gpu_gives or on_a_gpu'
	$(ON_STAND_IN) $(BIN)/python benchmarks/accelerator.py --device stand_in --sentences 3 --few 2 --width 16

lint: install ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: install ## speed and memory, side by side in one run
	$(BIN)/python benchmarks/extraction.py
	$(BIN)/python benchmarks/explainers.py --sentences 16
	$(BIN)/python benchmarks/metrics.py --sentences 8
	$(BIN)/python benchmarks/memory.py
	$(BIN)/python benchmarks/confidence.py
	$(BIN)/python benchmarks/debug_page.py

# fairseq needs the core's torch when it is built, and an environment apart: it fills Hydra's store.
$(VENV)-fairseq/.installed: pyproject.toml
	test -d $(VENV)-fairseq || $(PYTHON) -m venv $(VENV)-fairseq
	$(VENV)-fairseq/bin/pip install --quiet 'torch>=2.6,<2.14' setuptools wheel cython numpy
	$(VENV)-fairseq/bin/pip install --quiet -e .
	$(VENV)-fairseq/bin/pip install --quiet --no-build-isolation -e '.[fairseq]'
	touch $@

fairseq: install $(VENV)-fairseq/.installed ## train systems with fairseq and compare the reader
	$(ONE_THREAD) $(VENV)-fairseq/bin/python tests/fixtures/fairseq/make.py
	$(ONE_THREAD) $(BIN)/python -m pytest tests/nmt/test_fairseq.py

clean: ## remove stored results and figures
	rm -rf outputs results
