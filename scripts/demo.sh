#!/usr/bin/env bash
# Builds the command and runs the demonstration. DEMO_ARGS: options of `quaver demo`, separated by blanks.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

read -ra args <<<"${DEMO_ARGS:-}"
scripts/setup.sh build
cargo build --locked --release -p quaver-cli
"$(target_dir)/release/quaver" demo "${args[@]}"
# `--out` may have put it somewhere else; the command itself has said where.
page=quaver-report/report.html
if [[ " ${args[*]} " != *" --out"* && -s $page ]]; then
    printf '\nThe report is in %s\n' "$root/$page"
fi
