#!/usr/bin/env bash
# Makes quaver-report/index.html from the results of the demonstration, the benchmarks and the papers' figures, which are
# simulated and drawn beside what the benchmarks measured; runs first what has none yet. Takes the variables of scripts/demo.sh and scripts/bench.sh, and FIGURES_ARGS, options of
# bench/figures/draw.py.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

have python3 || scripts/setup.sh test
have python3 || die "python3 is missing; install it to make the page"
json=${BENCH_JSON:-bench-results.json}
[ -s quaver-report/report.json ] || scripts/demo.sh
[ -s "$json" ] || scripts/bench.sh
figures=quaver-report/figures/results.json
# Anew if there are other measurements.
if [ ! -s "$figures" ] || [ "$json" -nt "$figures" ]; then
    cargo build --locked --release -p quaver-cli
    read -ra args <<<"${FIGURES_ARGS:-}"
    python3 -B bench/figures/draw.py --quaver "$(target_dir)/release/quaver" --bench "$json" --out "${figures%/*}" "${args[@]}"
fi
python3 -B scripts/report.py --demo quaver-report/report.json --bench "$json" --figures "$figures" --out quaver-report/index.html
printf 'The page is %s\n' "$root/quaver-report/index.html"
