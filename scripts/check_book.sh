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

# In one go, so that all mean the same `quaver`; and all, because other features of a library would be built in the place of
# those that a test is using.
"${build_all[@]}"
built=$(target_dir)/debug
pages=0
for page in README.md docs/*.md; do
    grep -q '^```rust' "$page" || continue
    printf '   Doc-tests %s\n' "$page"
    rustdoc --test "$page" --edition 2024 -L "dependency=$built/deps" --extern "quaver=$built/libquaver.rlib" \
        --extern "quaver_net=$built/libquaver_net.rlib" --extern "quaver_lock=$built/libquaver_lock.rlib"
    pages=$((pages + 1))
done
[ "$pages" -gt 0 ] || die "no page has a program"
