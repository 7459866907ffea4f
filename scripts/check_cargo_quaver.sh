#!/usr/bin/env bash
# `cargo quaver`, and CMake's toolchain file: programs that they build give the same results as plain ones, and are
# preempted at their probes. With QUAVER_TEST_FULL the test suites of crates pass as well, once with all probes hitting.
#
#   scripts/check_cargo_quaver.sh [TOOLCHAIN [RUSTUP_HOME]]
#
# TOOLCHAIN: of rustup, which compiles those programs; where it is installed. Quaver itself is built as always.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

"${build_all[@]}"
programs=$(target_dir)/debug
repository=$PWD
if [ $# -gt 0 ]; then
    export RUSTUP_TOOLCHAIN=$1 RUSTUP_HOME=${2:-${RUSTUP_HOME:-$HOME/.rustup}}
    say "with $(rustc --version)"
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PATH=$programs:$PATH XDG_CACHE_HOME=$work/cache CARGO_TARGET_DIR=$work/target RUST_BACKTRACE=0
unset RUSTFLAGS CARGO_BUILD_TARGET RUSTC_WRAPPER
target=x86_64-unknown-linux-gnu

# preempted NAME WANTED PROGRAM...: prints WANTED when it is preempted at its probes all the time
preempted() {
    local name=$1 wanted=$2 out taken
    shift 2
    out=$(quaver run --workers 1 --quantum 5us --policy rr --notification probe --stats-json "$work/stats" -- "$@")
    [ "$out" = "$wanted" ] || die "$name, preempted at probes, prints \"$out\" and not \"$wanted\""
    taken=$(sed -n 's/.*"preempt_at_probe": *\([0-9]*\).*/\1/p' "$work/stats")
    [ "${taken:-0}" -ge 100 ] || die "$name: $taken preemptions at probes: $(cat "$work/stats")"
    say "$name: $taken preemptions at probes"
}

# count KEY FILE: what `quaver probes report` says
count() { quaver probes report --json - "$2" | sed -n "s/.*\"$1\": *\([0-9]*\).*/\1/p"; }

# has_none FILE...
has_none() {
    local file message
    for file; do
        if message=$(quaver probes report "$file" 2>&1); then die "$file has probes"; fi
        [[ $message == *"built without probes"* ]] || die "$message"
    done
}

# refused WANTED ARGUMENTS...: cargo quaver says it
refused() {
    local want=$1 message
    shift
    if message=$(cargo quaver "$@" 2>&1); then die "cargo quaver $* succeeds"; fi
    [[ $message == *"$want"* ]] || die "cargo quaver $*: $message"
}

cp -r crates/cargo-quaver/tests/sample "$work/sample"
cd "$work/sample"
plain=$(cargo run --locked --offline)
has_none "$work/target/debug/sample"
[[ $plain == *"41 frames, 41 lines"* ]] || die "the sample prints: $plain"

# Crate by crate: the program and its library, but not what runs in the build.
out=$(cargo quaver run --locked --offline 2>"$work/log") || die "$(cat "$work/log")"
[ "$out" = "$plain" ] || die "with probes the sample prints \"$out\" and not \"$plain\""
grep -q 'quaver: sample: [1-9][0-9]* probes for [1-9][0-9]* loops in 2 crates' "$work/log" || die "$(cat "$work/log")"
built=$work/target/quaver
[ "$(count objects "$built/$target/debug/sample")" = 2 ] || die "not all crates have probes"
# Where they lie is cargo's affair.
mapfile -t in_build < <(find "$built/debug" -name 'build[-_]script[-_]build' -o -name 'libsample_macros-*.so')
[ "${#in_build[@]}" -ge 2 ] || die "found only ${in_build[*]} of what runs in the build"
has_none "${in_build[@]}"
preempted "crates" "$plain" "$built/$target/debug/sample"

# Nothing is compiled again, and it is said again; with other settings everything is.
cargo quaver build --offline >"$work/log" 2>&1
if grep -q Compiling "$work/log"; then die "compiled twice: $(cat "$work/log")"; fi
grep -q 'quaver: sample: ' "$work/log" || die "not said again: $(cat "$work/log")"
cargo quaver build --offline --only sample-work >"$work/log" 2>&1
[ "$(count objects "$built/$target/debug/sample")" = 1 ] || die "--only: $(cat "$work/log")"

# Tests, documentation's too; the program and its tests as a whole, with std.
cargo quaver test --workspace --offline >"$work/log" 2>&1 || die "$(cat "$work/log")"
[ "$(grep -c '^test .* ok$' "$work/log")" = 2 ] || die "not all tests ran: $(cat "$work/log")"
cargo quaver build --release --offline >"$work/log" 2>&1 || die "$(cat "$work/log")"
grep -q 'quaver: sample: .* std included' "$work/log" || die "$(cat "$work/log")"
[ "$(count probes "$built/$target/release/sample")" -ge 300 ] || die "no probes in std: $(cat "$work/log")"
left=$(find "$built" -name 'quaver-*')
[ -z "$left" ] || die "left behind: $left"
preempted "whole program" "$plain" "$built/$target/release/sample"

# A library for C, static and shared.
cargo quaver build -p sample-c --offline >"$work/log" 2>&1 || die "$(cat "$work/log")"
cat >"$work/main.c" <<'END'
#include <stdio.h>
unsigned long sample_digits(unsigned long seed);
int main(void) { printf("%lu\n", sample_digits(1)); }
END
for kind in a so; do
    library=$built/$target/debug/libsample_c.$kind
    [ "$(count objects "$library")" = 2 ] || die "$library: $(cat "$work/log")"
    cc -o "$work/main" "$work/main.c" "$library" -lpthread -ldl -lm -lgcc_s
    [ "$("$work/main")" = 75 ] || die "with libsample_c.$kind: $("$work/main")"
done

refused "no such crate" build --only sample-macros
refused "does not go with" build --lto --only sample
refused "not for aarch64" build --target aarch64-unknown-linux-gnu
refused "there is no \`cargo quaver check\`" check
RUSTFLAGS=-Clinker-plugin-lto refused "-C linker-plugin-lto" build --offline
QUAVER_PROBES_ASSEMBLER=$work/nothing refused "cannot run the assembler" build --offline

if have cmake; then
    mkdir "$work/c"
    cat >"$work/c/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.21)
project(c C CXX)
add_library(work STATIC work.c)
add_executable(program program.cpp)
target_link_libraries(program work pthread)
END
    echo 'unsigned work(unsigned n) { unsigned x = n; while (n--) x = x * 3 ^ x >> 5; return x; }' >"$work/c/work.c"
    cat >"$work/c/program.cpp" <<'END'
#include <cstdio>
#include <thread>
extern "C" unsigned work(unsigned n);
int main() {
    unsigned results[2];
    std::thread a([&] { results[0] = work(30000000); }), b([&] { results[1] = work(30000001); });
    a.join();
    b.join();
    std::printf("%u %u\n", results[0], results[1]);
}
END
    for folder in plain probed; do
        options=()
        [ $folder = plain ] || options=(-DCMAKE_TOOLCHAIN_FILE="$repository/crates/probes/cmake/quaver.cmake")
        cmake -S "$work/c" -B "$work/c/$folder" -DCMAKE_BUILD_TYPE=Release "${options[@]}" >"$work/log" 2>&1 ||
            die "$(cat "$work/log")"
        cmake --build "$work/c/$folder" >"$work/log" 2>&1 || die "$(cat "$work/log")"
    done
    has_none "$work/c/plain/program"
    preempted "CMake" "$("$work/c/plain/program")" "$work/c/probed/program"
fi

# The test suites of crates that the workspace uses anyway, as far as they are published. Each passes twice: while probes
# do nothing, and while all hit, scramble what they may and change to another thread and back.
suite() {
    local crate=$1 manifest mode modes=(--per-crate --lto) torture=yes hits
    shift
    # Documentation's tests use the library as it is compiled by itself, and there are hundreds of programs.
    if [ "$1" = --doc ]; then modes=(--per-crate) torture=; fi
    manifest=$(cargo metadata --locked --filter-platform $target --format-version 1 | tr ',' '\n' |
        sed -n "s|.*\"manifest_path\":\"\(.*/$crate-[0-9.]*/Cargo.toml\)\"|\1|p" | tail -n 1)
    [ -n "$manifest" ] || die "the workspace does not use $crate"
    rm -rf "${work:?}/$crate"
    cp -r "$(dirname "$manifest")" "$work/$crate"
    printf '\n[workspace]\n' >>"$work/$crate/Cargo.toml"
    # Its own choice of a compiler may not be installed.
    rm -f "$work/$crate"/rust-toolchain*
    for mode in "${modes[@]}"; do
        (cd "$work/$crate" && TORTURE_OFF=1 cargo quaver test --release "$mode" "$@") >"$work/log" 2>&1 ||
            die "$crate $mode: $(tail -n 60 "$work/log")"
        grep -q "quaver: .* probes for" "$work/log" || die "$crate $mode: no probes: $(cat "$work/log")"
        say "$crate $mode $*: $(grep -c '^test .* ok$' "$work/log") tests"
        [ -n "$torture" ] || continue
        (cd "$work/$crate" && cargo quaver test --release "$mode" "$@") >"$work/log" 2>&1 ||
            die "$crate $mode, while all probes hit: $(tail -n 60 "$work/log")"
        hits=$(awk '$1 == "hits" { sum += $2 } END { print sum + 0 }' "$work/log")
        [ "$hits" -ge "${least:-10000}" ] || die "$crate $mode: only $hits hits"
        say "$crate $mode $*: $(grep -c '^test .* ok$' "$work/log") tests, $hits hits"
    done
    rm -rf "$CARGO_TARGET_DIR"
}
if [ -n "${QUAVER_TEST_FULL:-}" ]; then
    cd "$repository"
    for file in torture.S torture.c; do gcc -O2 -fPIC -c -o "$work/$file.o" "crates/probes/src/torture/$file"; done
    export RUSTFLAGS="-Clink-arg=$work/torture.S.o -Clink-arg=$work/torture.c.o"
    suite hashbrown --lib --tests
    # These tests match hardly anything; those of the documentation do.
    least=50 suite regex --lib
    suite regex --doc
    suite serde_json --lib --tests
    suite memchr --lib
    suite redb --lib --tests
fi
say "cargo quaver: ok"
