# What can be done here; `make` lists it. The work is done by the scripts in scripts/, which run by themselves as well.

.DEFAULT_GOAL := help
.PHONY: help demo check test test-full test-vm bench report wheel fmt lint doc install uninstall clean

# What `make bench` measures, and options of `quaver bench` and `quaver demo`.
BENCH ?= all
BENCH_ARGS ?=
BENCH_JSON ?= bench-results.json
DEMO_ARGS ?=
export BENCH BENCH_ARGS BENCH_JSON DEMO_ARGS

help: ## list what can be done
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s  %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo '  DEMO_ARGS="--quick"          options of `quaver demo`; `quaver demo --help` lists them'
	@echo '  BENCH="ops wake"             what to measure: ops, preempt, kv, wake, ... or all'
	@echo '  BENCH_ARGS="--quick"         options of `quaver bench`'
	@echo '  STEPS="clippy test"  V=1     of `make test`: only these steps; with all output'

demo: ## build, then show what preemption buys: a table, and an HTML report in quaver-report/
	@scripts/demo.sh

check: ## the inner loop: format, clippy, unit tests, the runtime's main tests, the pages
	@scripts/test.sh check

test: ## everything a change must pass, in its quick form
	@scripts/test.sh quick

test-full: ## the same with the long forms of the heavy suites (days; run again, it goes on where it was)
	@scripts/test.sh full

test-vm: ## the kernel module and the runtime on a stock kernel, in an emulator with user interrupts
	@for cpus in 1 2 4; do vm/run.sh --cpus $$cpus || exit; done
	@vm/run.sh --runtime
	@! command -v go >/dev/null || vm/run.sh --go

bench: ## measure, beside other thread libraries; a table and bench-results.json
	@scripts/bench.sh

report: ## quaver-report/index.html from the demo, the benchmarks and the simulated figures; runs what is missing
	@scripts/report.sh

wheel: ## the simulator as a Python package, in python/dist/
	@scripts/wheel.sh

fmt: ## format all code
	@scripts/format.sh

lint: ## the checks of `make test` that run nothing
	@STEPS="format clippy plain-features demo-features shellcheck go deny" scripts/test.sh quick

doc: ## the library's documentation, in target/doc/
	@cargo doc --locked --workspace --no-deps

PREFIX ?= /usr/local

install: ## install quaver and the C library; for C alone: PARTS=library. PREFIX=/usr/local, DESTDIR, LIBDIR
	@scripts/install.sh "$(PREFIX)"

uninstall: ## remove what `make install` has installed: the same PREFIX, DESTDIR, LIBDIR, PARTS
	@scripts/install.sh --remove "$(PREFIX)"

clean: ## remove everything that was built or measured
	@scripts/clean.sh
