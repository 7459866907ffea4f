#!/usr/bin/env bash
# Runs the library's examples, each in a process of its own: they must end by themselves, and well.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

cargo build --locked -p quaver --examples
programs=$(target_dir)/debug/examples
count=0
for source in crates/runtime/examples/*.rs; do
    name=$(basename "$source" .rs)
    printf '%s\n' "--- $name"
    timeout 120 "$programs/$name" </dev/null || die "example $name ended with status $?"
    count=$((count + 1))
done
say "$count examples ran"
