#!/usr/bin/env bash
# Licences, sources and bans of all dependencies (deny.toml); advisories too when their database can be had.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

checks=(bans licenses sources)
if cargo deny --locked fetch db >/dev/null 2>&1; then
    checks=(advisories "${checks[@]}")
else
    say "no network: advisories are not checked"
fi
# All crates have been fetched by the build.
cargo deny --locked --offline check "${checks[@]}"
