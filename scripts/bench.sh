#!/usr/bin/env bash
# Builds the command and its peers and measures. BENCH: what; BENCH_ARGS: options of `quaver bench`; BENCH_JSON: the result.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

read -ra names <<<"${BENCH:-all}"
read -ra args <<<"${BENCH_ARGS:-}"
json=${BENCH_JSON:-bench-results.json}
scripts/setup.sh build
have go || say "Go is not installed: its rows are left out"
# Beside itself `quaver bench` looks for the peers, and for what makes and runs programs with probes.
cargo build --locked --release -p quaver-bench-peers -p quaver-bench-async -p quaver-probes -p quaver-shim -p quaver-cli
"$(target_dir)/release/quaver" bench "${names[@]}" "${args[@]}" --json "$json"
printf '\nThe numbers are in %s; a page is made of them by: make report\n' "$json"
