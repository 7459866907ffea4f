#!/usr/bin/env bash
# Runs the models of where threads meet, each in a process of its own: loom maps a stack for each thread of each order of
# events, and threads of one process wait for each other there. Then the locks in simulated time, with shuttle.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

# With a target named, these flags are not for macros and build scripts, which else would be built with loom, too.
export RUSTFLAGS="--cfg loom"
models=(cargo test --locked --profile loom --lib --target x86_64-unknown-linux-gnu)
build=("${models[@]}" -p quaver-sched -p quaver -p quaver-lock -p quaver-share -p quaver-load --no-run
    --target-dir "$(target_dir)/loom")
"${build[@]}"
list=$(mktemp)
trap 'rm -f "$list"' EXIT
"${build[@]}" --message-format json 2>/dev/null | sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' |
    while read -r program; do
        "$program" --list --format terse | sed -n "s|^\(.*\): test\$|$program \1|p"
    done >"$list"
[ -s "$list" ] || die "no models were found"
# shellcheck disable=SC2016 # the inner shell's variables
xargs -P "$(nproc)" -L 1 sh -c 'out=$("$0" --exact "$1" 2>&1) || { printf "%s\n" "$out"; exit 1; }' <"$list" ||
    die "a model failed"
say "$(wc -l <"$list") models: ok"

# Who gets the locks, and how soon (sync::fairness).
RUSTFLAGS="--cfg loom --cfg shuttle" "${models[@]}" -p quaver --target-dir "$(target_dir)/shuttle" fairness::
