#!/usr/bin/env bash
# Makes quaver-report/index.html from the results of the demonstration, the papers' simulated figures and the benchmarks;
# runs first what has none yet. Takes the variables of scripts/demo.sh and scripts/bench.sh, and FIGURES_ARGS, options of
# bench/figures/draw.py.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

have python3 || scripts/setup.sh test
have python3 || die "python3 is missing; install it to make the page"
json=${BENCH_JSON:-bench-results.json}
[ -s quaver-report/report.json ] || scripts/demo.sh
figures=quaver-report/figures/results.json
if [ ! -s "$figures" ]; then
    cargo build --locked --release -p quaver-cli
    read -ra args <<<"${FIGURES_ARGS:-}"
    python3 -B bench/figures/draw.py --quaver "$(target_dir)/release/quaver" --out "${figures%/*}" "${args[@]}"
fi
[ -s "$json" ] || scripts/bench.sh
python3 -B scripts/report.py --demo quaver-report/report.json --bench "$json" --figures "$figures" --out quaver-report/index.html
printf 'The page is %s\n' "$root/quaver-report/index.html"
