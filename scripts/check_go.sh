#!/usr/bin/env bash
# The Go program that benchmarks compare with: formatted, vetted, and it builds with the Go that is here.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

cd bench/go
# This module only, without a C compiler and without fetching another Go.
export GOWORK=off GOFLAGS='' GOTOOLCHAIN=local CGO_ENABLED=0
unformatted=$(gofmt -l .)
[ -z "$unformatted" ] || die "gofmt would change: $unformatted"
go vet ./...
program=$(mktemp)
trap 'rm -f "$program"' EXIT
go build -trimpath -o "$program" .
"$program" '{"benchmark":"ops","op":"yield","warmup_ms":1,"measure_ms":5}'
