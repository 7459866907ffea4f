#!/usr/bin/env bash
# The book and the README: their Rust programs compile and run, their links lead somewhere, and what they list is complete.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

if have python3; then
    python3 -B scripts/check_docs.py
else
    say "python3 is not installed: links and lists are not checked"
fi

cargo build --locked -p quaver
deps=$(target_dir)/debug/deps
library=$(target_dir)/debug/libquaver.rlib
pages=0
for page in README.md docs/*.md; do
    grep -q '^```rust' "$page" || continue
    printf '   Doc-tests %s\n' "$page"
    rustdoc --test "$page" --edition 2024 -L "dependency=$deps" --extern "quaver=$library"
    pages=$((pages + 1))
done
[ "$pages" -gt 0 ] || die "no page has a program"
