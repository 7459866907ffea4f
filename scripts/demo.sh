#!/usr/bin/env bash
# Builds the command, its key-value store with probes, and runs the demonstration. DEMO_ARGS: options of `quaver demo`,
# separated by blanks.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

read -ra args <<<"${DEMO_ARGS:-}"
scripts/setup.sh build
target=$(target_dir)
build=(build --locked --profile demo)
cargo "${build[@]}" -p cargo-quaver
# The requests' own code is in these two. What the demonstration does not need is left out.
PATH=$target/demo:$PATH cargo quaver "${build[@]}" -p quaver-cli --no-default-features --only redb,quaver-bench-common
quaver=$target/quaver/x86_64-unknown-linux-gnu/demo/quaver
"$quaver" demo "${args[@]}"
# `--out` may have put it somewhere else; the command itself has said where.
page="quaver-report/report.html"
if [[ " ${args[*]} " != *" --out"* && -s $page ]]; then
    printf '\nThe report is in %s\n' "$root/$page"
fi
