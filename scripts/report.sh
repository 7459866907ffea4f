#!/usr/bin/env bash
# Makes quaver-report/index.html from the demonstration's and the benchmarks' results; runs first what has none yet.
# Takes the variables of scripts/demo.sh and scripts/bench.sh.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

have python3 || scripts/setup.sh test
have python3 || die "python3 is missing; install it to make the page"
json=${BENCH_JSON:-bench-results.json}
[ -s quaver-report/report.json ] || scripts/demo.sh
[ -s "$json" ] || scripts/bench.sh
python3 -B scripts/report.py --demo quaver-report/report.json --bench "$json" --out quaver-report/index.html
printf 'The page is %s\n' "$root/quaver-report/index.html"
