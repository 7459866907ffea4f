#!/usr/bin/env bash
# Builds the programs with cc, clang and, if they are in Rust as well, rustc, as far as these are there; runs them on
# little input, and compares their lines.
# Usage: check.sh [DIRECTORY]; the executables stay in DIRECTORY, which without one is a temporary one.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/lib.sh"

expected=24
compilers=(cc)
have cc || die "no C compiler: install gcc or clang"
if have clang; then compilers+=(clang); else say "no clang: it is not checked"; fi
have rustc || say "no rustc: programs in Rust are not checked"

out=${1:-}
if [ -z "$out" ]; then
    out=$(mktemp -d)
    trap 'rm -rf "$out"' EXIT
fi
mkdir -p "$out"

count=0
for source in bench/programs/*.c; do
    name=$(basename "$source" .c)
    first=
    for compiler in "${compilers[@]}"; do
        program=$out/$name-$compiler
        "$compiler" -std=c11 -O2 -ffp-contract=off -Wall -Wextra -Werror -o "$program" "$source" -lm
        line=$("$program" 0.01) || die "$name, built by $compiler, fails"
        case "$line" in
        "$name "*) ;;
        *) die "$name, built by $compiler, prints: $line" ;;
        esac
        [ -n "$first" ] || first=$line
        [ "$line" = "$first" ] || die "$name prints \"$first\" built by ${compilers[0]}, \"$line\" by $compiler"
        for bad in "" abc 0 -1 nan 1e9 1x "0.01 0.01"; do
            status=0
            "$program" "$bad" >"$out/stdout" 2>"$out/stderr" || status=$?
            if [ "$status" != 2 ] || [ ! -s "$out/stderr" ] || [ -s "$out/stdout" ]; then
                die "$name, built by $compiler, takes the scale \"$bad\" (exit status $status)"
            fi
        done
    done
    if [ -e "bench/programs/rust/$name.rs" ] && have rustc; then
        program=$out/$name-rustc
        rustc --edition=2024 -C opt-level=3 -D warnings -o "$program" "bench/programs/rust/$name.rs"
        line=$("$program" 0.01) || die "$name in Rust fails"
        [ "$line" = "$first" ] || die "$name prints \"$first\" in C, \"$line\" in Rust"
    fi
    count=$((count + 1))
done
rm -f "$out/stdout" "$out/stderr"
[ "$count" = "$expected" ] || die "$count programs instead of $expected"
echo "$count programs: ok"
