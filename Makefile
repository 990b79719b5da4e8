# Everything a developer types. It needs Rust, a C compiler, CPython 3.11 or newer and make; the rest goes into .venv by itself.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Stamps: the environment follows pyproject.toml, the native module follows the Rust sources.
NUMPY := $(VENV)/.run
TOOLS := $(VENV)/.build
DEV := $(VENV)/.dev
NATIVE := $(VENV)/.native
# The demo's own module, which nothing else imports: see [profile.demo] in Cargo.toml.
QUICK := $(VENV)/demo/triune/_native.abi3.so
RUST := Cargo.toml $(wildcard Cargo.lock) $(shell find crates -type f \( -name '*.rs' -o -name '*.toml' \))
# Says what it installs, then does: $(call install,group,what for,options of pip).
define install
	@echo "installing $(2) into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check $(3) --group $(1)
endef

.PHONY: help
help: ## show this list
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(f"Python 3.11 or newer is needed, {sys.version.split()[0]} found: try make PYTHON=python3.11" if sys.version_info < (3, 11) else 0)'
	@echo "making $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'

$(NUMPY): pyproject.toml | $(BIN)/python
	$(call install,run,numpy,--no-compile)
	@touch $@

$(TOOLS): pyproject.toml | $(BIN)/python
	$(call install,build,maturin and numpy)
	@touch $@

$(DEV): pyproject.toml | $(BIN)/python
	$(call install,dev,what the tests and checks need)
	@touch $@

# Every twentieth crate is named while they are compiled; the whole log is shown if that fails: $(call logged,command).
define logged
	@$(1) 2>&1 | tee $(VENV)/build.log \
		| awk '/^ *Compiling / && ++n % 20 == 0 { print "  " n " crates, now " $$2; fflush() }' \
		|| { cat $(VENV)/build.log >&2; exit 1; }
endef

$(NATIVE): $(TOOLS) $(RUST)
	@echo "building the native module (some minutes the first time)"
	$(call logged,env -u CONDA_PREFIX VIRTUAL_ENV=$(abspath $(VENV)) $(BIN)/maturin develop --release --group build)
	@touch $@

.PHONY: build
build: $(NATIVE) ## build the native module into .venv, for speed

# An extension module finds the interpreter's symbols when it is loaded, which macOS's linker wants to be told.
ifeq ($(shell uname),Darwin)
LIBRARY := libtriune_native.dylib
LOADED := -C link-arg=-undefined -C link-arg=dynamic_lookup
else
LIBRARY := libtriune_native.so
endif

# The package's Python files beside the module, as links.
$(QUICK): $(NUMPY) $(RUST) $(wildcard python/triune/*.py)
	@echo "building a module for the demo, quickly and not for speed (a minute or two the first time)"
	$(call logged,env PYO3_PYTHON=$(abspath $(BIN)/python) cargo rustc --profile demo --package triune-python --lib --no-default-features -- $(LOADED))
	@rm -rf $(@D)
	@mkdir -p $(@D)
	@ln -s $(filter-out %.so %/__pycache__,$(wildcard $(CURDIR)/python/triune/*)) $(@D)
	@cp $${CARGO_TARGET_DIR:-target}/demo/$(LIBRARY) $@

# The module of `make build` where there is one.
.PHONY: demo
ifeq ($(wildcard $(NATIVE)),)
demo: $(QUICK) ## run the embedded network on a virtual card, with a module built quickly unless `make build` made one
	@PYTHONPATH=$(VENV)/demo $(BIN)/python -m triune.demo
else
demo: $(NATIVE)
	@$(BIN)/python -m triune.demo
endif

.PHONY: test
test: test-rust test-python ## run all tests

.PHONY: test-rust
test-rust: ## run the Rust tests (with cargo-nextest where it is installed) and documentation examples
	@if cargo nextest --version >/dev/null 2>&1; then cargo nextest run --workspace; else cargo test --workspace --lib --bins --tests; fi
	cargo test --workspace --doc --quiet

.PHONY: test-python
test-python: $(DEV) $(NATIVE) ## run the Python tests, a process for each processor
	$(BIN)/python -m pytest --numprocesses auto --dist worksteal

ARM := aarch64-unknown-linux-gnu

.PHONY: test-arm
test-arm: ## run the kernels' tests and the embedded networks for 64-bit Arm, emulated
	@for tool in rustup qemu-aarch64-static aarch64-linux-gnu-gcc; do command -v $$tool >/dev/null \
		|| { echo "no $$tool: make test-arm wants rustup and Debian's qemu-user-static and gcc-aarch64-linux-gnu"; exit 1; }; done
	@rustup target list --installed | grep -qx $(ARM) || rustup target add $(ARM)
	CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc \
	CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64-static -cpu max -L /usr/aarch64-linux-gnu" \
		cargo test --quiet --target $(ARM) --package triune-kernels --package triune --lib --tests --examples

# Seconds for each target, and which ones (all).
SECONDS := 20
TARGETS :=

.PHONY: fuzz
fuzz: ## run every fuzz target for SECONDS (20), TARGETS="mge onnx" for some
	@EACH=$(SECONDS) TARGETS="$(TARGETS)" fuzz/run

CYCLES := 10000
APIS :=

.PHONY: soak
soak: $(DEV) $(NATIVE) ## load, run and drop CYCLES (10000) times per API (APIS=lite,session for some), fail on growth
	$(BIN)/python tests/soak.py --cycles $(CYCLES) $(if $(APIS),--apis $(APIS))

SAMPLE := 100
SEED := 1
CRATES :=
PYTHON_TOO := 1

.PHONY: mutants
mutants: $(DEV) ## plant SAMPLE (100) faults by SEED (1) in CRATES (all): which do the tests notice? PYTHON_TOO= leaves pytest out
	$(BIN)/python tests/mutants/run.py --sample $(SAMPLE) --seed $(SEED) $(if $(CRATES),--crates "$(CRATES)") $(if $(PYTHON_TOO),,--no-python)

.PHONY: lint
lint: lint-rust lint-python ## check formatting, lints, types and stubs

.PHONY: lint-rust
lint-rust: ## the Rust half of them
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --quiet -- -D warnings
	@# What an embedder builds who asks for nothing more.
	cargo clippy --package triune --quiet -- -D warnings
	@# What the demo leaves out.
	cargo clippy --package triune --features remote-without-tls --quiet -- -D warnings

.PHONY: lint-python
lint-python: $(DEV) $(NATIVE) ## the Python half of them
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --quiet --check .
	$(BIN)/mypy
	$(BIN)/stubtest --mypy-config-file pyproject.toml triune._native

.PHONY: format
format: $(DEV) ## format the Rust and Python sources
	cargo fmt --all
	$(BIN)/ruff check --quiet --fix-only .
	$(BIN)/ruff format --quiet .

.PHONY: bench
bench: ## run the kernel benchmarks
	cargo bench --package triune-benches

.PHONY: bench-peers
bench-peers: $(DEV) $(NATIVE) ## compare images per second with ONNX Runtime, and with OpenVINO where it is installed (MODELS=folder to choose the models)
	$(BIN)/python benches/python/bench_peers.py $(MODELS)

FAMILY :=

.PHONY: bench-operators
bench-operators: $(DEV) $(NATIVE) ## compare times of single operators with ONNX Runtime (FAMILY="pool resize" for some families)
	$(BIN)/python benches/python/bench_operators.py $(if $(FAMILY),--family $(FAMILY))

.PHONY: bench-load
bench-load: $(DEV) $(NATIVE) ## measure what a node costs when a model is loaded, from 1,000 nodes to 300,000
	$(BIN)/python benches/python/bench_load.py --peer

.PHONY: bench-lite
bench-lite: $(DEV) $(NATIVE) ## measure load and first forward in MegEngine Lite's API (MODELS=folder to choose the models)
	$(BIN)/python benches/python/bench_lite.py $(MODELS)

.PHONY: bench-batch
bench-batch: $(DEV) $(NATIVE) ## compare photographs per second with pipelines over ONNX Runtime (MODELS=files to choose the models)
	$(BIN)/python benches/python/bench_batch.py $(MODELS)

MATCH :=

.PHONY: bench-transformers
bench-transformers: $(DEV) $(NATIVE) ## compare transformers with ONNX Runtime: values, time, memory (MATCH="BERT Whisper" for some)
	$(BIN)/python benches/python/bench_transformers.py $(if $(MATCH),--match $(MATCH))

BOUNDS :=

.PHONY: bench-quantization
bench-quantization: $(DEV) $(NATIVE) ## compare answers of quantized models with ONNX Runtime's quantizer (BOUNDS="20 36" for mixtures)
	$(BIN)/python benches/python/bench_quantization.py $(if $(BOUNDS),--bounds $(BOUNDS))

.PHONY: models
models: $(DEV) ## train and export the embedded network again
	$(BIN)/python python/triune/models/train_digits.py

.PHONY: wheel
wheel: $(NATIVE) ## build the wheel for this machine into dist/
	@rm -f dist/triune-*.whl
	$(BIN)/maturin build --release --quiet --out dist
	@ls -l dist

PREFIX ?= build/capi

.PHONY: capi
capi: ## build the vendors' C interfaces and install them with headers and pkg-config into PREFIX (build/capi)
	cargo build --release --quiet --package triune-capi
	install -d $(PREFIX)/lib/pkgconfig $(PREFIX)/include/axruntime $(PREFIX)/include/lite-c
	install -m 755 $${CARGO_TARGET_DIR:-target}/release/libtriune_capi.so $(PREFIX)/lib
	install -m 644 crates/triune-capi/include/axruntime/* $(PREFIX)/include/axruntime
	install -m 644 crates/triune-capi/include/lite-c/* $(PREFIX)/include/lite-c
	sed -e 's|@PREFIX@|$(abspath $(PREFIX))|' -e "s|@VERSION@|$$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)|" \
		crates/triune-capi/triune-capi.pc.in > $(PREFIX)/lib/pkgconfig/triune-capi.pc

# Rust's targets of the wheels; the first is what the oldest Linux in use has: glibc 2.17, and musl 1.2.
LINUX := x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu x86_64-unknown-linux-musl aarch64-unknown-linux-musl

.PHONY: wheels
wheels: $(TOOLS) ## build the wheels for every Linux into dist/ (LINUX="aarch64-unknown-linux-gnu" for some), and check them
	$(call install,release,what cross-compiles and checks)
	@for target in $(LINUX); do \
		rustup target list --installed 2>/dev/null | grep -qx $$target || rustup target add $$target; \
		case $$target in *musl) level=musllinux_1_2 ;; *) level=manylinux_2_17 ;; esac; \
		echo "building $$target for $$level"; \
		PATH="$(abspath $(BIN)):$$PATH" maturin build --release --quiet --zig --target $$target --compatibility $$level --out dist; \
	done
	@for wheel in dist/*.whl; do \
		platform=$${wheel##*-abi3-}; platform=$${platform%.whl}; \
		echo "checking $$wheel"; \
		$(BIN)/auditwheel show $$wheel | tr '\n' ' ' | grep -q "platform tag: *\"$${platform%%.*}\"" \
			|| { $(BIN)/auditwheel show $$wheel; exit 1; }; \
	done
	$(BIN)/twine check --strict dist/*.whl

.PHONY: docs
docs: ## build the Rust documentation, warnings as errors
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps

# The site's tools have an environment of their own: nothing else needs them.
SITE := build/site-tools

$(SITE)/.made: pyproject.toml
	@echo "installing what makes the site into $(SITE)"
	@$(PYTHON) -m venv $(SITE)
	@$(SITE)/bin/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	@$(SITE)/bin/python -m pip install --quiet --disable-pip-version-check --group site
	@touch $@

.PHONY: environments
environments: $(DEV) $(SITE)/.made ## install what tests, checks and pages need, and build nothing

.PHONY: site
site: $(SITE)/.made ## build the pages of docs/ into build/site, warnings as errors
	NO_MKDOCS_2_WARNING=1 $(SITE)/bin/mkdocs build --quiet --strict

.PHONY: crates
crates: ## package every published crate, as for crates.io, and build each from its package
	cargo package --workspace --exclude triune-python --exclude triune-capi --exclude triune-testing --exclude triune-benches --allow-dirty --quiet
	@ls target/package/*.crate

.PHONY: clean
clean: ## remove everything that was built
	cargo clean --quiet
	rm -rf $(VENV) dist python/triune/*.so .mypy_cache .pytest_cache .ruff_cache
	find python tests benches -type d -name __pycache__ -exec rm -rf {} +
