#!/usr/bin/env bash
# Formats all code in place.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

cargo fmt --all
if have gofmt; then
    gofmt -l -w bench/go
fi
