#!/usr/bin/env bash
# Runs the commands in their quick forms and checks the shape of their JSON; timings decide nothing.
#
#   scripts/smoke.sh doctor|demo|figures|bench|bench-all|lock|net|servers|selftest|boundaries-all|fuzz|fuzz-all|share|share-all PROGRAMS
#   scripts/smoke.sh probes|probes-all|random|random-all PROGRAMS
#   scripts/smoke.sh torture-all PROGRAMS COUNTS
#
# PROGRAMS: the folder of `quaver`.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

what=${1:?what?}
quaver=${2:?where is quaver?}/quaver
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

case $what in
doctor)
    "$quaver" doctor
    "$quaver" doctor --json "$out/doctor.json"
    ;;
demo)
    "$quaver" demo --quick --loads 20,60 --out "$out/report" --json "$out/demo.json"
    for file in report.html report.json; do
        [ -s "$out/report/$file" ] || die "no $file was written"
    done
    ;;
figures)
    "$quaver" report --quick --out "$out/report" --bench "$out/none.json" aspen-11 skyloft-06
    for file in index.html figures/aspen-11.svg figures/skyloft-06.svg; do
        [ -s "$out/report/$file" ] || die "no $file was written"
    done
    cp "$out/report/figures/results.json" "$out/figures.json"
    ;;
# How many preemptions must be survived is a part of what the project promises: fewer are a failure.
selftest)
    least=300000
    "$quaver" selftest --quick --preemptions "$least" --json "$out/selftest.json"
    ;;
boundaries-all)
    "$quaver" selftest boundaries
    exit
    ;;
# Another seed each time in the long form: the same programs find nothing new.
fuzz) "$quaver" selftest fuzz --programs 200 --json "$out/fuzz.json" ;;
fuzz-all) "$quaver" selftest fuzz --programs 10000 --seed "$RANDOM" --json "$out/fuzz.json" ;;
share) "$quaver" selftest share --seconds 3 --json "$out/share.json" ;;
share-all) "$quaver" selftest share --seconds 900 --seed "$RANDOM" --json "$out/share.json" ;;
# Programs with preemption probes, all of which hit.
probes)
    least=1000000
    "$quaver" selftest probes --quick --hits "$least" --json "$out/probes.json"
    ;;
probes-all)
    least=100000000
    "$quaver" selftest probes --hits "$least" --json "$out/probes.json"
    ;;
random) "$quaver" selftest probes --quick --random 10 --json "$out/random.json" ;;
random-all) "$quaver" selftest probes --random 1000 --seed "$((RANDOM * 1000))" --json "$out/random.json" ;;
torture-all)
    "$quaver" selftest torture --preemptions 1000000000 --add-to "${3:?where are the counts?}"
    exit
    ;;
bench)
    "$quaver" bench ops probes --quick --programs fft,kvstore --scale 0.005 --json "$out/bench.json"
    ;;
lock) "$quaver" bench lock --quick --json "$out/lock.json" ;;
net)
    # A server and its client take a CPU each.
    [ "$(nproc)" -ge 2 ] || {
        say "there is one CPU only: no servers are measured"
        exit
    }
    "$quaver" bench net --quick --only "tokio-current-thread,tokio 2,net auto,library" --json "$out/net.json"
    ;;
servers)
    [ "$(nproc)" -ge 2 ] || {
        say "there is one CPU only: no servers are measured"
        exit
    }
    "$quaver" bench servers --quick --only "quaver off,quaver 50us,tokio,native,run auto" --json "$out/servers.json"
    ;;
bench-all) "$quaver" bench all --quick --json "$out/bench.json" ;;
*) die "unknown command $what" ;;
esac
if have python3; then
    python3 -B scripts/check_json.py "${what%-all}" "$out/${what%-all}.json" ${least:+"$least"}
else
    say "python3 is not installed: the JSON's shape is not checked"
fi
