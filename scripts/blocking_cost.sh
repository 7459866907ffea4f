#!/usr/bin/env bash
# What a read costs that blocks, on one CPU and on all: natively, through io_uring, and on a user thread of the shim.
#
#   scripts/blocking_cost.sh QUAVER [SECONDS [ROUNDS]]
#
# A byte goes to another process and comes back (crates/shim/programs/echo.c). The ways take turns; prints the median of all
# rounds in microseconds, on the wall and of the process's CPU time.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

quaver=${1:?where is quaver?}
seconds=${2:-0.5}
rounds=${3:-9}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cc -Wall -Wextra -Werror -O2 crates/shim/programs/echo.c -o "$work/echo"

# one WAY COMMAND...: appends a line to the way's file
one() {
    local way=$1
    shift
    timeout 60 "$@" >>"$work/$way" 2>"$work/err" || { [ "$?" -eq 2 ] && cat "$work/err" >"$work/$way.note"; } ||
        die "$way: $(cat "$work/err")"
}

cpu=$(taskset -cp $$ | sed 's/.*[ ,-]//')
for ((round = 0; round < rounds; round++)); do
    for where in one all; do
        pin=()
        [ "$where" = all ] || pin=(taskset -c "$cpu")
        one "native-read.$where" "${pin[@]}" "$work/echo" read "$seconds"
        one "native-io_uring.$where" "${pin[@]}" "$work/echo" ring "$seconds"
        one "shim-read.$where" "${pin[@]}" "$quaver" run --workers 1 -- "$work/echo" read "$seconds"
    done
done

# median FILE COLUMN
median() { cut -d' ' -f"$2" "$1" | sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
printf '%-18s %-6s %12s %12s\n' '' CPUs 'wall, us' 'CPU, us'
for where in one all; do
    for way in native-read native-io_uring shim-read; do
        file=$work/$way.$where
        if [ -s "$file" ]; then
            printf '%-18s %-6s %12s %12s\n' "$way" "$where" "$(median "$file" 1)" "$(median "$file" 2)"
        else
            printf '%-18s %-6s %s\n' "$way" "$where" "$(cat "$file.note")"
        fi
    done
done
