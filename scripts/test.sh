#!/usr/bin/env bash
# Everything that a change must pass: `scripts/test.sh quick`, or `full` with the long forms of the heavy suites.
# `check` is the inner loop: the steps that a few minutes are enough for.
#
# Prints the closing lines of every step with its minutes, and "N passed, N failed" at the end. STEPS="clippy test" runs
# only these; V=1 shows all output. REPEAT: how often `full` repeats the integration tests.
#
# QUAVER_NO_VM=1: without the virtual machine, whose absence is a failure otherwise.
#
# `full` can be interrupted: run again on the same tree, it skips the steps that have passed, and its torture goes on
# adding up.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

size=${1:-quick}
case $size in
quick) ;;
check) STEPS=${STEPS:-format clippy test-libraries test-runtime pages} ;;
full)
    export QUAVER_TEST_FULL=1
    export PROPTEST_CASES=${PROPTEST_CASES:-5000}
    export STEP_TIMEOUT=${STEP_TIMEOUT:-7200}
    ;;
*) die "unknown size $size: quick and full are known" ;;
esac

# The settings of the caller's shell are not those that the tests are about.
while IFS='=' read -r name _; do
    case $name in
    QUAVER_TEST_FULL | QUAVER_NO_VM | QUAVER_VM_CACHE | QUAVER_VM_MIRROR) ;;
    QUAVER_*) unset "$name" ;;
    esac
done < <(env)
export CARGO_TERM_COLOR=never CARGO_TERM_PROGRESS_WHEN=never

scripts/setup.sh build
[ "$size" = check ] || scripts/setup.sh test || say "some steps will be skipped"
target=$(target_dir)
if [ "$size" = full ]; then
    # What has passed counts for this tree only.
    tree=$( (git rev-parse HEAD && git diff HEAD) 2>/dev/null | sha1sum | cut -c1-12)
    mkdir -p "$target/test-full-$tree"
    STEPS_DONE=$target/test-full-$tree/passed
fi
# shellcheck source=scripts/steps.sh
. scripts/steps.sh

step format scripts/format.sh --check
step clippy cargo clippy --locked --workspace --all-targets -- -D warnings
# The library as most users have it: without the features that other members of the workspace switch on.
step plain-features cargo check --locked -p quaver -p quaver-sched
# As `make demo` builds it.
step demo-features cargo clippy --locked -p quaver-cli --no-default-features -- -D warnings
if [ "$size" = check ]; then
    # Whole programs have their own step in the other sizes.
    step test-libraries cargo test --locked --workspace --exclude quaver-bench-peers --lib
    step test-runtime cargo test --locked -p quaver --test preempt --test threads --test sync --test blocking
    step pages python3 -B scripts/check_docs.py
    step policy-lines python3 -B -m unittest discover -s scripts -p 'test_policy_lines.py'
    finish
fi
step build-tests cargo test --locked --workspace --no-run
step build "${build_all[@]}"
programs=$target/debug
if [ "$size" = full ]; then
    step build-fast "${build_fast[@]}"
    programs=$target/fast
fi

# What only computes: it takes what the tests, which often wait, leave of the CPUs.
# shellcheck disable=SC2317 # called by `aside`
computing() {
    local STEP_TIMEOUT=${STEP_TIMEOUT:-1800}
    # It computes alone for a minute, and on a new machine downloads first.
    if [ -n "${QUAVER_NO_VM:-}" ]; then
        skip vm "QUAVER_NO_VM is set"
    else
        step vm vm/run.sh --cpus 2
    fi
    step loom scripts/loom.sh
    if have spin; then
        step lock-model scripts/check_lock_model.sh "$size"
    else
        skip lock-model "spin is not installed"
    fi
    step rustdoc env RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps
    step book scripts/check_book.sh
    step packages scripts/check_packages.sh "$size"
    step probes scripts/check_probes.sh
    step cargo-quaver scripts/check_cargo_quaver.sh
    step smoke-selftest scripts/smoke.sh selftest "$programs"
    step fuzz scripts/smoke.sh fuzz "$programs"
    step smoke-share scripts/smoke.sh share "$programs"
    step probes-selftest scripts/smoke.sh probes "$programs"
    if have csmith; then
        step probes-random scripts/smoke.sh random "$programs"
    else
        skip probes-random "csmith is not installed"
    fi
    if have shellcheck; then
        step shellcheck shellcheck -x scripts/*.sh bench/programs/*.sh vm/*.sh .ci/run
    else
        skip shellcheck "shellcheck is not installed"
    fi
    if have go; then
        step go scripts/check_go.sh
        go_timeout=1800
        [ "$size" = quick ] || go_timeout=21600
        STEP_TIMEOUT=$go_timeout step quaver-go scripts/check_quaver_go.sh
    else
        skip go "Go is not installed"
        skip quaver-go "Go is not installed"
    fi
}

aside computing
# A quarter of an hour where it has the CPUs to itself.
STEP_TIMEOUT=${STEP_TIMEOUT:-2700} step test cargo test --locked --workspace --no-fail-fast
step examples scripts/run_examples.sh
step smoke-doctor scripts/smoke.sh doctor "$programs"
step smoke-demo scripts/smoke.sh demo "$programs"
step smoke-figures scripts/smoke.sh figures "$programs"
step smoke-bench scripts/smoke.sh bench "$programs"
step smoke-lock scripts/smoke.sh lock "$programs"
step smoke-net scripts/smoke.sh net "$programs"
step smoke-servers scripts/smoke.sh servers "$programs"
step capi scripts/check_capi.sh
step shim scripts/check_shim.sh "$size"
step lock scripts/check_lock.sh "$programs"
step serve scripts/check_serve.sh "$programs"
step bypass scripts/check_bypass.sh "$programs"
if have python3; then
    step scripts-python python3 -B -m unittest discover -s scripts -p 'test_*.py'
else
    skip scripts-python "python3 is not installed"
fi
together

if cargo deny --version >/dev/null 2>&1; then
    step deny scripts/check_dependencies.sh
else
    skip deny "cargo-deny is not installed (cargo install cargo-deny --locked)"
fi

if [ "$size" = full ]; then
    step test-release cargo test --locked --release -p quaver -p quaver-sched -p quaver-load --no-fail-fast
    # Two minutes of building for one test.
    step jemalloc cargo test --locked -p quaver-selftest --features jemalloc --test jemalloc
    step repeat scripts/repeat.sh "${REPEAT:-50}"
    step wheel scripts/wheel.sh test
    step servers scripts/check_servers.sh "$programs"
    step bench-all scripts/smoke.sh bench-all "$programs"
    step fuzz-all scripts/smoke.sh fuzz-all "$programs"
    step share-all scripts/smoke.sh share-all "$programs"
    step probes-all scripts/smoke.sh probes-all "$programs"
    if have csmith; then
        step random-all scripts/smoke.sh random-all "$programs"
    else
        skip random-all "csmith is not installed"
    fi
    step probes-real scripts/check_probes_real.sh "$programs"
    step probes-compilers scripts/check_probes_compilers.sh "$programs"
    if have rustup; then
        step probes-rustc scripts/check_probes_rustc.sh
    else
        skip probes-rustc "rustup is not installed"
    fi
    step glibc scripts/check_glibc.sh "$programs"
    for suite in bookworm trixie trixie-backports; do step "vm-$suite" vm/run.sh --suite "$suite"; done
    step vm-runtime vm/run.sh --runtime
    step vm-slice vm/run.sh --slice
    if have go; then
        step vm-go vm/run.sh --go
    else
        skip vm-go "Go is not installed"
    fi
    step boundaries-all scripts/smoke.sh boundaries-all "$programs"
    # A thousand million preemptions: a day.
    STEP_TIMEOUT=259200 step torture-all scripts/smoke.sh torture-all "$programs" "$target/test-full-$tree/torture.json"
fi
finish
