#!/usr/bin/env bash
# Formats all code in place. With --check it changes nothing, and fails where it would, and where a line of Rust is
# longer than rustfmt.toml says: at a long string rustfmt gives up on the whole expression, without a word. Tables and
# links in documentation may be longer.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

long_lines() {
    git ls-files -z -- '*.rs' |
        LC_ALL=C.UTF-8 xargs -0 grep -HnE '^.{101,}$' |
        grep -vE '^[^:]+:[0-9]+: *//[/!] *(\||\[[^]]*\]: |<?https?://)'
}

if [ "${1:-}" = --check ]; then
    cargo fmt --all --check
    long=$(long_lines || true)
    [ -z "$long" ] || die "lines of more than 100 columns; break strings with \\ at the end of a line:
$long"
    exit
fi
cargo fmt --all
if have gofmt; then
    gofmt -l -w bench/go
fi
