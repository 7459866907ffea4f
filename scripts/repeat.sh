#!/usr/bin/env bash
# Runs the runtime's tests again and again: `scripts/repeat.sh TIMES [CARGO TEST ARGUMENTS]`. Stops at the first failure.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

times=${1:?how often?}
shift
[ $# -gt 0 ] || set -- -p quaver --lib --tests
for ((i = 1; i <= times; i++)); do
    cargo test --locked --quiet "$@" || die "run $i of $times failed"
done
say "$times runs without a failure"
