# shellcheck shell=bash
# Runs named steps one after the other and counts them; sourced, not run.
#
#   step NAME COMMAND...        runs a step: its output goes to a log, its closing lines to the terminal
#   aside FUNCTION              begins to run the steps of FUNCTION beside those that follow, with what they leave of
#                               the CPUs
#   together                    waits for them, and shows what became of them
#   skip NAME REASON            says that a step is left out; it counts neither as passed nor as failed
#   finish                      lists what failed, prints "N passed, N failed" alone on the last line, and exits
#
# STEPS: only the steps whose names are in this list (words separated by blanks); everything if empty.
# V=1: shows all output as it comes.
# STEPS_DONE: a file of steps that have passed; they are not run again, and those that pass are added to it.
# STEP_TIMEOUT: seconds after which a step is stopped and counts as failed; a hang must not look like a long test.

steps_passed=0
steps_failed=()
steps_times=()
steps_pid=
steps_aside=
steps_logs=$(target_dir)/test-logs
mkdir -p "$steps_logs"

# A step is a process group of its own, so that nothing of it is left behind.
stop_step() {
    local pid
    for pid in $steps_pid $steps_aside; do kill -TERM "$pid" 2>/dev/null || true; done
}
trap 'stop_step; exit 130' INT
trap 'stop_step; exit 143' TERM

wanted() { [ -z "${STEPS:-}" ] || [[ " $STEPS " == *" $1 "* ]]; }

# What a reader wants to see of a log: a line for each test program, or the last lines of everything else.
closing_lines() {
    awk '
        { sub(/\r$/, "") }
        # "Running tests/x.rs (target/debug/deps/x-0123)": the program says which crate, the source which part of it.
        /^ *Running / { name = $NF; gsub(/^.*\/|-[0-9a-f]+\)$/, "", name); name = name ", " $(NF - 1) }
        /^ *Doc-tests / { name = $2 ", documentation" }
        /^test result: / { line = $0; sub(/; finished in .*/, "", line); sub(/^test result: /, "", line)
                           print "    " name ": " line; cargo = 1 }
        NF { last[++n] = $0 }
        END { if (!cargo) for (i = (n > 3 ? n - 2 : 1); i <= n; i++) print "    " last[i] }' "$1"
}

# What a reader wants to see of the log of a failure: failed tests, and what came before the death of a test program.
failure_lines() {
    awk '
        { recent[NR % 20] = $0 }
        /^failures:$/ { show = 1 }
        show { print "    " $0 }
        /^test result: / { show = 0 }
        /process didn.t exit successfully.*signal/ { for (i = NR + 1; i <= NR + 20; i++) print "    " recent[i % 20] }' "$1" |
        head -n 200 || true # what is too long to read is in the log
    say "    ... the last lines of $1:"
    tail -n 40 "$1" | sed 's/^/    /'
}

# Runs a command as a child that can be stopped, and writes into FILE what CPU time it took: measured FILE COMMAND...
# In a shell of its own: what else ends meanwhile does not count.
measured() {
    local file=$1 child status=0
    shift
    trap 'kill -TERM "$child" 2>/dev/null' INT TERM
    "$@" &
    child=$!
    wait "$child" || status=$?
    times >"$file"
    exit "$status"
}

# cpu_seconds FILE: the CPU seconds that `measured` has written there.
cpu_seconds() {
    awk 'NR == 2 { for (i = 1; i <= 2; i++) { split($i, t, /[ms]/); sum += 60 * t[1] + t[2] }; print int(sum) }' "$1"
}

minutes() { printf '%d:%02d' $(($1 / 60)) $(($1 % 60)); }

step() {
    local name=$1 log out copier='' status=0 start=$SECONDS
    shift
    wanted "$name" || return 0
    if [ -n "${STEPS_DONE:-}" ] && grep -qsxF "$name" "$STEPS_DONE"; then
        printf '==> %s\n    passed before\n' "$name"
        steps_passed=$((steps_passed + 1))
        return 0
    fi
    log=$steps_logs/${name// /-}.log
    printf '==> %s\n' "$name"
    if [ "${V:-0}" = 1 ]; then
        exec {out}> >(tee "$log" >&2)
        copier=$!
    else
        exec {out}>"$log"
    fi
    : >"$log.times"
    (measured "$log.times" timeout --kill-after=10 "${STEP_TIMEOUT:-900}" "$@" >&"$out" 2>&1 {out}>&- </dev/null) &
    steps_pid=$!
    exec {out}>&-
    wait "$steps_pid" || status=$?
    steps_pid=
    [ -z "$copier" ] || wait "$copier"
    local seconds=$((SECONDS - start)) cpu took
    cpu=$(cpu_seconds "$log.times")
    rm "$log.times"
    took="$(minutes "$seconds") wall, $(minutes "${cpu:-0}") CPU"
    steps_times+=("$(printf '%-18s %s' "$name" "$took")")
    if [ "$status" -eq 0 ]; then
        closing_lines "$log"
        printf '    ok, %s\n' "$took"
        steps_passed=$((steps_passed + 1))
        [ -z "${STEPS_DONE:-}" ] || printf '%s\n' "$name" >>"$STEPS_DONE"
    else
        failure_lines "$log" 2>&1
        [ "$status" -ne 124 ] || printf '    stopped after %s s\n' "${STEP_TIMEOUT:-900}"
        printf '    FAILED with status %s, %s: %s\n' "$status" "$took" "$name"
        steps_failed+=("$name")
    fi
}

# shellcheck disable=SC2030 # `together` reads them from a file
aside() {
    (
        # A subshell has the traps of nobody.
        trap 'stop_step; exit 143' INT TERM
        steps_passed=0 steps_failed=() steps_times=() steps_aside=
        renice -n 10 "$BASHPID" >/dev/null
        "$1"
        declare -p steps_passed steps_failed steps_times | sed 's/^declare /declare -g /' >"$steps_logs/.aside"
    ) >"$steps_logs/aside.log" 2>&1 &
    steps_aside=$!
}

# shellcheck disable=SC2031
together() {
    local status=0 passed=$steps_passed failed=("${steps_failed[@]}") took=("${steps_times[@]}")
    wait "$steps_aside" || status=$?
    steps_aside=
    cat "$steps_logs/aside.log"
    [ "$status" -eq 0 ] || die "the steps aside ended with status $status"
    # shellcheck disable=SC1091 # written by `aside`
    . "$steps_logs/.aside"
    steps_passed=$((passed + steps_passed))
    steps_failed=("${failed[@]}" "${steps_failed[@]}")
    steps_times=("${took[@]}" "${steps_times[@]}")
}

skip() {
    wanted "$1" || return 0
    printf '==> %s\n    skipped: %s\n' "$1" "$2"
}

# The tests that failed and why, in a few lines, for those who see only the end of the output.
reasons() {
    grep -aE '^test .* FAILED$|^--- FAIL|panicked at|^assertion|^error(\[|:)|signal: ' "$1" | cut -c1-200 | awk '!seen[$0]++' |
        head -n 20 | sed 's/^/    /' || true # not every failure has such lines
}

finish() {
    local name
    printf 'minutes of each step, %s in all:\n' "$(minutes "$SECONDS")"
    [ ${#steps_times[@]} -eq 0 ] || printf '    %s\n' "${steps_times[@]}"
    for name in "${steps_failed[@]}"; do
        printf 'failed: %s\n' "$name"
        reasons "$steps_logs/${name// /-}.log"
    done
    printf '%s passed, %s failed\n' "$steps_passed" "${#steps_failed[@]}"
    [ ${#steps_failed[@]} -eq 0 ]
    exit
}
