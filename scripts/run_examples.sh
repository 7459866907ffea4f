#!/usr/bin/env bash
# Runs the examples of the libraries, each in a process of its own: they must end by themselves, and well.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

"${build_all[@]}"
programs=$(target_dir)/debug/examples
count=0
for source in crates/{runtime,sched,load}/examples/*.rs; do
    name=$(basename "$source" .rs)
    printf '%s\n' "--- $name"
    timeout 120 "$programs/$name" </dev/null || die "example $name ended with status $?"
    count=$((count + 1))
done
# Without a dynamic loader there are no user threads, and the program says so.
static=$(target_dir)/static
RUSTFLAGS="-C target-feature=+crt-static" cargo build --locked -p quaver --example hello \
    --target x86_64-unknown-linux-gnu --target-dir "$static"
if message=$("$static/x86_64-unknown-linux-gnu/debug/examples/hello" 2>&1); then
    die "a program without a dynamic loader runs"
fi
grep -q 'needs glibc 2.34 or newer, dynamically linked' <<<"$message" || die "linked statically: $message"
say "$count examples ran"
