#!/usr/bin/env bash
# Makes quaver-report/index.html from the results of the demonstration, the benchmarks and the papers' figures; runs first
# what has no results yet, and simulates the figures again if there are newer measurements to draw beside them. Takes the
# variables of scripts/demo.sh and scripts/bench.sh, and FIGURES_ARGS, options of `quaver report`.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

json=${BENCH_JSON:-bench-results.json}
[ -s quaver-report/report.json ] || scripts/demo.sh
[ -s "$json" ] || scripts/bench.sh
go="go-bench-results.json"
[ -s "$go" ] || ! have go || go/bench/run --only badger1,compute --json "$go"
cargo build --locked --release -p quaver-cli
figures=quaver-report/figures/results.json
args=(--keep-figures)
if [ ! -s "$figures" ] || [ "$json" -nt "$figures" ] || [ "$go" -nt "$figures" ]; then
    read -ra args <<<"${FIGURES_ARGS:-}"
fi
"$(target_dir)/release/quaver" report --bench "$json" "${args[@]}"
