#!/usr/bin/env bash
# Unmodified programs on user threads: scripts/check_shim.sh quick|full.
#
# The test programs of crates/shim, native and under `quaver run`. Programs of Debian packages are a part of
# `quaver selftest torture`.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

size=${1:-quick}
case $size in
quick) rounds=1 build=("${build_all[@]}") profile=debug ;;
full) rounds=50 build=("${build_fast[@]}") profile=fast ;;
*) die "unknown size $size: quick and full are known" ;;
esac
"${build[@]}"
quaver=$(target_dir)/$profile/quaver
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

programs="locks threads blocking sockets parked offsets signals signalfd masks handlers heaps robust targets processes attributes urgent again image descriptors raw broken privileges numbered"
for program in $programs; do
    cc -Wall -Wextra -Werror -O2 -g "crates/shim/programs/$program.c" -o "$work/$program" -lpthread
done
mkdir "$work/plugins"
flags=(-Wall -Wextra -Werror -O2 -g crates/shim/programs/loading.c)
cc "${flags[@]}" -DLIBRARY=1 -shared -fPIC -ftls-model=initial-exec -o "$work/plugins/libcounts.so"
# shellcheck disable=SC2016 # the loader's variable
cc "${flags[@]}" -DLIBRARY=2 -shared -fPIC -o "$work/libloads.so" -Wl,-rpath,'$ORIGIN/plugins'
# shellcheck disable=SC2016
cc "${flags[@]}" -o "$work/loading" -L"$work" -lloads -lpthread -Wl,-rpath,'$ORIGIN'
programs="$programs loading"
if have g++; then
    g++ -Wall -Wextra -Werror -O2 -g -std=c++17 crates/shim/programs/cxx.cpp -o "$work/cxx" -lpthread
    programs="$programs cxx"
fi
openmp=()
if printf 'int main(void) { return 0; }\n' | cc -fopenmp -x c - -o "$work/tried" 2>/dev/null; then
    cc -Wall -Wextra -Werror -O2 -g -fopenmp crates/shim/programs/openmp.c -o "$work/openmp"
    cc -Wall -Wextra -Werror -O2 -g crates/shim/programs/late.c -o "$work/late" -ldl
    openmp=(openmp late)
    programs="$programs openmp late"
else
    say "no OpenMP: its programs are left out"
fi

# run_one PROGRAM OPTION...
run_one() {
    local program=$1 status=0 out
    out=$(mktemp "$work/out.XXXXXX")
    shift
    # Without preemption a thread that computes would keep the others waiting.
    local burners=2
    case "$*" in *off*) burners=0 ;; esac
    timeout 120 "$quaver" run "$@" -- "$work/$program" "$burners" >"$out" 2>&1 || status=$?
    [ "$status" -eq 0 ] || die "$program with $*: status $status: $(cat "$out")"
    rm "$out"
    printf . >>"$work/runs"
}
# with_workers N: all programs, under several quanta.
with_workers() {
    local program round quantum
    for program in $programs; do
        for ((round = 0; round < rounds; round++)); do
            run_one "$program" --workers "$1" --quantum off
            for quantum in 100us 20us; do
                run_one "$program" --workers "$1" --quantum "$quantum"
            done
            run_one "$program" --workers "$1" --quantum 5us --clock timer-thread
        done
    done
}
for program in $programs; do
    timeout 120 "$work/$program" >/dev/null || die "$program fails without the shim"
done
with_workers 1 &
one=$!
with_workers 2 &
two=$!
wait "$one" || { kill "$two"; die "a program fails with one worker"; }
wait "$two" || die "a program fails with two workers"
# Preempted no more often than can be paid for.
run_one threads --workers 1 --quantum 20us --tax 1
# Threads of OpenMP wait without their workers, some thousand times, wherever its library comes from.
for program in "${openmp[@]}"; do
    for workers in 1 2; do
        rm -f "$work/stats"
        timeout 120 "$quaver" run --workers "$workers" --quantum 20us --stats-json "$work/stats" -- "$work/$program" 0 wait ||
            die "$program fails with $workers workers"
        handovers=$(sed 's/.*"handovers":\([0-9]*\).*/\1/' "$work/stats")
        [ "$handovers" -lt 100 ] || die "$program: a waiting thread has blocked its worker $handovers times"
    done
done
# Programs are told of as many CPUs as there are workers.
[ "$(timeout 60 "$quaver" run --workers 1 -- nproc)" = 1 ] || die "one worker has several CPUs"
# Programs that are started by one with pinned workers may run where it could.
cc -Wall -Wextra -Werror -O2 -g crates/shim/programs/placed.c -o "$work/placed" -lpthread
cpus=$(sed -n 's/^Cpus_allowed_list:\t//p' /proc/self/status)
timeout 60 "$quaver" run --cpus "$cpus" -- "$work/placed" "$(nproc)" ||
    die "a program that was started by one with pinned workers is confined"
# In one run queue with others, also as what they become.
export QUAVER_SHARE_SOCKET=$work/share.sock
"$quaver" share --cpus "$cpus" --queue two-queue:quantum=200us >"$work/broker" 2>&1 &
broker=$!
trap 'kill "$broker"; rm -rf "$work"' EXIT
until [ -S "$QUAVER_SHARE_SOCKET" ]; do
    kill -0 "$broker" || die "no broker: $(cat "$work/broker")"
    sleep 0.1
done
for program in $programs; do
    (run_one "$program" --share queue) &
    first=$!
    run_one threads --share queue
    wait "$first" || die "$program fails in a common queue"
done
timeout 60 "$quaver" run --share queue -- "$work/placed" "$(nproc)" || die "a program of a common queue cannot replace itself"
kill "$broker"
wait "$broker" || die "the broker fails: $(cat "$work/broker")"
trap 'rm -rf "$work"' EXIT
unset QUAVER_SHARE_SOCKET
printf 'test programs: %s runs\n' "$(wc -c <"$work/runs")"

# A program that replaces itself goes on as what it has become, with the signals that it blocks; those that it starts are their own affair.
# lines_after SCRIPT: how many programs have said what they did on user threads. Bash has a setenv of its own.
lines_after() {
    rm -f "$work/stats"
    "$quaver" run --workers 1 --quantum 1ms --stats-json "$work/stats" -- bash -c "$1" >"$work/out" 2>&1 || die "bash -c '$1': $(cat "$work/out")"
    wc -l <"$work/stats"
}
[ "$(lines_after "exec env A=b nice -n 1 '$work/threads' 0")" -eq 1 ] || die "a program behind exec does not run on user threads"
[ "$(lines_after "exec env -i '$work/threads' 0")" -eq 1 ] || die "a program with an empty environment does not run on user threads"
[ "$(lines_after "'$work/threads' 0; true")" -eq 1 ] || die "not only the shell runs on user threads, but also what it starts"
# shellcheck disable=SC2016 # the other shell's variable
"$quaver" run -- env --block-signal=USR1 sh -c 'kill -USR1 $$; kill -0 $$' || die "exec does not pass on which signals are blocked"

# shellcheck disable=SC2016 # the other shell's variable
others=$("$quaver" run -- env LD_PRELOAD=libm.so.6 sh -c 'echo "$LD_PRELOAD"')
[ "$others" = libm.so.6 ] || die "exec loses other libraries that are preloaded: '$others'"

# A program with a runtime of its own is told so.
if "$quaver" run -- "$quaver" serve kv --port 0 >"$work/out" 2>&1; then die "two runtimes in one process"; fi
grep -q 'must be started without' "$work/out" || die "two runtimes in one process: $(cat "$work/out")"

# As installed.
PROFILE=debug PARTS=programs scripts/install.sh "$work/prefix" 2>/dev/null
"$work/prefix/bin/quaver" run -- "$work/locks" 0 >"$work/out" 2>&1 || die "the installed quaver run: $(cat "$work/out")"

# gdb loads the commands for user threads from the installed shim.
if have gdb; then
    "$work/prefix/bin/quaver" run --workers 1 -- sleep 300 &
    sleeper=$!
    for ((i = 0; i < 100; i++)); do
        timeout 60 gdb -batch -iex "add-auto-load-safe-path $work/prefix" -p "$sleeper" -ex 'info uthreads' >"$work/out" 2>&1 || true
        ! grep -q 'parked .* main' "$work/out" || break
        sleep 0.1
    done
    kill "$sleeper"
    wait "$sleeper" 2>/dev/null || true
    grep -q 'parked .* main' "$work/out" || die "gdb shows no user threads of a shimmed program: $(cat "$work/out")"
fi

# The same of threads that have names; then of a core file: made by gdb, and by the kernel if it writes one.
if have gdb; then
    cc -O1 -g crates/shim/programs/states.c -o "$work/states" -lpthread
    # shows_states CORE|PID
    shows_states() {
        gdb -nx -q -batch -iex 'set debuginfod enabled off' -iex "add-auto-load-safe-path $work/prefix" "$work/states" "$1" \
            -ex 'info uthreads' -ex 'uthread apply all bt' >"$work/out" 2>&1 || true
        local expected
        for expected in ' parked .* a waiter ' ' (preempted|running|ready) .* a computer ' ' names of 15 byt ' 'wait_inner .*states.c' \
            'wait_outer .*states.c' 'compute_inner .*states.c' 'compute_outer .*states.c'; do
            grep -Eq "$expected" "$work/out" || die "gdb shows no '$expected' of a shimmed program, or of its core file: $(cat "$work/out")"
        done
    }
    "$work/prefix/bin/quaver" run --workers 1 --quantum 1ms --stack-size 256k -- "$work/states" >"$work/said" &
    states=$!
    until grep -q ready "$work/said"; do
        kill -0 "$states" || die "states.c fails under quaver run"
        sleep 0.1
    done
    shows_states "$states"
    gdb -nx -q -batch -iex "add-auto-load-safe-path $work/prefix" -p "$states" -ex "uthread gcore $work/made" >"$work/out" 2>&1 || true
    kill "$states"
    wait "$states" 2>/dev/null || true
    [ -s "$work/made" ] || die "uthread gcore writes no core file: $(cat "$work/out")"
    shows_states "$work/made"
    mkdir "$work/cores"
    status=0
    (
        ulimit -c "$(ulimit -H -c)"
        cd "$work/cores"
        exec "$work/prefix/bin/quaver" run --workers 1 --quantum 1ms --stack-size 256k -- "$work/states" crash
    ) >/dev/null 2>&1 &
    crashed=$!
    wait "$crashed" 2>/dev/null || status=$?
    [ "$status" -eq 139 ] || die "states.c crashes with status $status and not by SIGSEGV"
    pattern=$(cat /proc/sys/kernel/core_pattern)
    folder=$work/cores
    case $pattern in /*) folder=$(dirname "$pattern") ;; esac
    core=$(find "$folder" -maxdepth 1 -type f \( -name core -o -name "*$crashed*" \) 2>/dev/null | head -n 1) || true # no such folder
    if [ -n "$core" ]; then
        mv "$core" "$work/crashed"
        shows_states "$work/crashed"
        grep -q 'crash .*states.c' "$work/out" || die "gdb does not show where a shimmed program crashed: $(cat "$work/out")"
    else
        say "no core file of the kernel's: it writes none, or elsewhere"
    fi
fi

PARTS=programs scripts/install.sh --remove "$work/prefix" 2>/dev/null
left=$(find "$work/prefix" -mindepth 1)
[ -z "$left" ] || die "make uninstall leaves $left"

# A look at what a read that blocks costs; it decides nothing.
scripts/blocking_cost.sh "$quaver" 0.1 3

# Sent by another process, a SIGSEGV is no fault that will come again.
"$quaver" run -- sleep 300 &
sleeper=$!
until grep -q quaver-clock "/proc/$sleeper/task/"*/comm 2>/dev/null; do sleep 0.1; done
kill -SEGV "$sleeper"
status=0
wait "$sleeper" 2>/dev/null || status=$?
[ "$status" -eq 139 ] || die "kill -SEGV ends a shimmed program with status $status"

# Priorities are those of a policy that has some.
run_one attributes --workers 2 --policy priority

# Exit codes: the program's, or why there is none.
# exits CODE COMMAND...
exits() {
    local expected=$1 status=0
    shift
    timeout 60 "$quaver" run "$@" >"$work/out" 2>&1 || status=$?
    [ "$status" -eq "$expected" ] || die "quaver run $* exits with $status and not with $expected: $(cat "$work/out")"
}
exits 7 -- sh -c 'exit 7'
exits 127 -- no-such-program
exits 127 -- /no/such/program
exits 126 -- /etc/passwd
exits 126 -- /
exits 125 --quantum soon -- true
exits 125 --workers many -- true
exits 125 --no-such-option -- true
QUAVER_MAX_THREADS=many exits 125 -- true

# What cannot run is refused, with the reason.
refused() {
    local expected=$1
    shift
    if timeout 60 "$quaver" run "$@" >"$work/out" 2>&1 || ! grep -q "$expected" "$work/out"; then
        die "quaver run $* should say '$expected', but says: $(cat "$work/out")"
    fi
}
printf 'int main(void) { return 0; }\n' | cc -x c -static - -o "$work/static" 2>/dev/null &&
    refused "linked statically" -- "$work/static"
refused "no program no-such-program" -- no-such-program
refused "0 workers" --workers 0 -- true
refused "soon" --quantum soon -- true
refused "a tax of 0 %" --tax 0 -- true
# What makes or changes kernel threads is refused when it is called, and not before.
printf '#define _GNU_SOURCE\n#include <sched.h>\n#include <unistd.h>\nint main(int argc, char **argv) {
    (void)argv; return argc > 1 && (clone(0, 0, 0, 0) != -1 || unshare(0) != -1 || setns(0, 0) != -1); }\n' |
    cc -x c - -o "$work/clones" -Wno-nonnull
"$quaver" run -- "$work/clones" >"$work/out" 2>&1 || die "a program that may call clone fails"
[ ! -s "$work/out" ] || die "a program that may call clone says: $(cat "$work/out")"
"$quaver" run -- "$work/clones" now >"$work/out" 2>&1 || die "clone, unshare or setns is not refused: $(cat "$work/out")"
[ "$(grep -Ec '(clone|unshare), which' "$work/out")" -eq 2 ] || die "refused without a reason: $(cat "$work/out")"
"$quaver" run -- env >"$work/out"
! grep -q '^LD_PRELOAD=' "$work/out" || die "the shim stays in the environment"
