#!/usr/bin/env bash
# quaver-go: formatted, vetted, its parts and the programs that it builds tested, its benchmarks run for a moment.
#
# Without QUAVER_TEST_FULL=1 some Go releases and packages stand for all; what cannot be fetched is skipped, and said so.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

target=$(realpath -m "$(target_dir)")
cd go
minor=$(go env GOVERSION | sed -n 's/^go1\.\([0-9]*\).*/\1/p')
if [ -z "$minor" ] || [ "$minor" -lt 21 ]; then
    say "skipped: quaver-go needs Go 1.21, here is $(go version)"
    exit 0
fi
# These modules only, with the Go that is here unless a test selects another.
export GOWORK=off GOFLAGS=-buildvcs=false GOTOOLCHAIN=local
unformatted=$(gofmt -l . internal/overlay/_runtime)
[ -z "$unformatted" ] || die "gofmt would change: $unformatted"
go vet ./...
for program in test/testdata/*/; do
    go vet "./$program"
done
timeout=20m
[ -z "${QUAVER_TEST_FULL:-}" ] || timeout=300m
# Skips are part of what a reader wants to know, a line for each passed test is not.
go test -timeout "$timeout" -v ./... | grep -Ev '^( *=== (RUN|NAME|PAUSE|CONT)| +--- PASS)'

cd bench
if [ "$minor" -lt 24 ]; then
    say "skipped: the benchmarks need Go 1.24 for BadgerDB"
elif ! go mod download; then
    say "skipped: the modules of the benchmarks cannot be fetched"
else
    go vet ./...
    go test ./...
    results=$(mktemp)
    drawn=$(mktemp -d)
    trap 'rm -rf "$results" "$drawn"' EXIT
    # BadgerDB takes long to build.
    workloads=bimodal,sleeper,micro
    [ -z "${QUAVER_TEST_FULL:-}" ] || workloads=bimodal,badger1,badger4,sleeper,micro
    ./run --quick --length 200ms --rates 500,1000 --only "$workloads" --json "$results"
    for key in workload variant rate class p50_us p99_us p999_us rate_at_slo stock paper quaver; do
        grep -q "\"$key\"" "$results" || die "the benchmark's results have no $key"
    done
    if [ -n "${QUAVER_TEST_FULL:-}" ] && [ -x "$target/debug/quaver" ]; then
        "$target/debug/quaver" report --go "$results" --figures ../../bench/figures --out "$drawn" aspen-07
        [ -s "$drawn/figures/aspen-07.svg" ] || die "the figure is not drawn"
    fi
fi
