#!/usr/bin/env bash
# zstd and SQLite from their C sources, with probes that all hit, print what they print without. Says how much of the
# time of compiling is quaver-as's own.
#
#   scripts/check_probes_real.sh PROGRAMS [LEVEL...]
#
# PROGRAMS: the folder of `quaver` and `quaver-as`. LEVEL: -O0 to -O3 and -Os, all of them by default. The sources are
# those in the crates that Cargo.lock names: nothing is downloaded that the build has not downloaded.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

quaver=${1:?where is quaver?}/quaver
shift
levels=("$@")
[ $# -gt 0 ] || levels=(-O0 -O1 -O2 -O3 -Os)
compilers=(gcc)
if have clang; then compilers+=(clang); fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME=$work/cache

# The folder of a crate's source.
source_of() {
    cargo metadata --format-version 1 --locked | tr ',' '\n' |
        sed -n "s|.*\"manifest_path\":\"\(.*/$1-[^/\"]*\)/Cargo.toml\".*|\1|p" | head -n 1 | grep . ||
        die "no source of $1: is it still a dependency of quaver-selftest?"
}
zstd=$(source_of zstd-sys)/zstd/lib
sqlite=$(source_of libsqlite3-sys)/sqlite3
drivers=crates/probes/tests/real

for file in torture.S torture.c; do
    gcc -O2 -c -o "$work/$file.o" "crates/probes/src/torture/$file"
done

# Options and sources of a program.
declare -A parts=(
    [zstd]="-I$zstd -DZSTD_DISABLE_ASM=1 $drivers/zstd.c $(echo "$zstd"/{common,compress,decompress,dictBuilder}/*.c)"
    [sqlite]="-I$sqlite -DSQLITE_THREADSAFE=0 -DSQLITE_ENABLE_FTS5 -DSQLITE_ENABLE_RTREE -DSQLITE_ENABLE_MATH_FUNCTIONS
        -DSQLITE_OMIT_LOAD_EXTENSION $drivers/sqlite.c $sqlite/sqlite3.c"
)

hits=0
for name in zstd sqlite; do
    read -r -d '' -a words <<<"${parts[$name]}" || true
    for compiler in "${compilers[@]}"; do
        for level in "${levels[@]}"; do
            what="$name by $compiler $level"
            "$compiler" "$level" -w -o "$work/plain" "${words[@]}" -lm
            from=${EPOCHREALTIME//[^0-9]/}
            QUAVER_PROBES_REPORT=$work/report "$quaver" cc "$compiler" "$level" -w -o "$work/probed" "${words[@]}" \
                "$work"/torture.*.o -lm
            took=$((${EPOCHREALTIME//[^0-9]/} - from))
            own=$(awk -F '"rewriting_us":' '{ sum += $2 } END { print sum + 0 }' "$work/report")
            if grep -v '"left_file":null' "$work/report"; then die "$what: a file was left without probes"; fi
            "$work/plain" >"$work/plain.out" || die "$what fails without probes"
            TORTURE_VISIT=10007 "$work/probed" >"$work/probed.out" 2>"$work/errors" ||
                die "$what fails with probes: $(tail -n 3 "$work/errors")"
            diff "$work/plain.out" "$work/probed.out" >&2 || die "$what prints something else with probes"
            count=$(sed -n 's/^hits \([0-9]*\) .*/\1/p' "$work/errors")
            [ "${count:-0}" -ge 100000 ] || die "$what: only ${count:-no} hits"
            hits=$((hits + count))
            say "$what: the same, $count hits; $((100 * own / took)) % of $((took / 1000)) ms of compiling is rewriting"
            rm "$work/report"
        done
    done
done
say "zstd and SQLite with probes: ok, $hits hits"
