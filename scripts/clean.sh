#!/usr/bin/env bash
# Removes what was built or measured here. What the demonstration wrote elsewhere (--out) stays.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

cargo clean
rm -rf quaver-report bench-results.json
