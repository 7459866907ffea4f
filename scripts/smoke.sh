#!/usr/bin/env bash
# Runs the release build's commands in their quick forms and checks the shape of their JSON; numbers decide nothing.
#
#   scripts/smoke.sh doctor|demo|figures|bench|bench-all|selftest|selftest-all TARGET_DIR
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

what=${1:?what?}
quaver=${2:?where is the build?}/release/quaver
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

case $what in
doctor)
    "$quaver" doctor
    "$quaver" doctor --json "$out/doctor.json"
    ;;
demo)
    "$quaver" demo --quick --out "$out/report" --json "$out/demo.json"
    for file in report.html report.json; do
        [ -s "$out/report/$file" ] || die "no $file was written"
    done
    ;;
figures)
    have python3 || { say "python3 is not installed: no figure is drawn"; exit 0; }
    python3 -B bench/figures/draw.py --quick --quaver "$quaver" --out "$out/figures" aspen-11 skyloft-06
    [ -s "$out/figures/index.html" ] || die "no page was written"
    cp "$out/figures/results.json" "$out/figures.json"
    ;;
# How many preemptions must be survived is a part of what the project promises.
selftest) "$quaver" selftest --quick --preemptions 10000000 --json "$out/selftest.json" ;;
selftest-all) "$quaver" selftest --preemptions 1000000000 --json "$out/selftest.json" ;;
bench) "$quaver" bench ops --quick --json "$out/bench.json" ;;
bench-all) "$quaver" bench all --quick --json "$out/bench.json" ;;
*) die "unknown command $what" ;;
esac
if have python3; then
    python3 -B scripts/check_json.py "${what%-all}" "$out/${what%-all}.json"
else
    say "python3 is not installed: the JSON's shape is not checked"
fi
