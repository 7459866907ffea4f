#!/usr/bin/env bash
# Checks the model of quaver-lock's lock with spin (crates/lock/model/README.md): that it is right, and that spin finds
# what is wrong with versions of it that are known to be wrong.
#
#   scripts/check_lock_model.sh [quick|full]
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

size=${1:-quick}
model=$root/crates/lock/model/lock.pml
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# Spin's words for what it found.
lost='invalid end state'
assertion='assertion violated'
stuck='non-progress cycle'

# explore MODEL safety|progress SETTINGS: prints what the checker says. Memory is bounded: a search that needs more
# says that it is not complete.
explore() {
    local file=$1 how=$2 define word
    shift 2
    local settings=()
    for word in "$@"; do settings+=("-D$word"); done
    case $how in
    safety) define=(-DSAFETY) run=(-m1000000) ;;
    progress) define=(-DNP) run=(-m1000000 -l -f) ;;
    esac
    spin "${settings[@]}" -a "$file" || return
    cc -O1 -w "${define[@]}" -DCOLLAPSE -DMEMLIM=6000 -o pan pan.c || return
    ./pan "${run[@]}" 2>&1
}

# right safety|progress SETTINGS
right() {
    local said states
    said=$(explore "$model" "$@") || die "$*: $said"
    if ! grep -q 'errors: 0' <<<"$said" || grep -qE 'Search not completed|max search depth too small' <<<"$said"; then
        die "the model is wrong, or too large: $*: $(tail -n 30 <<<"$said")"
    fi
    states=$(awk '/states, stored/ { print $1 }' <<<"$said")
    printf 'right: %s, %s states\n' "$*" "$states"
}

# wrong WHAT EXPECTED SED safety|progress SETTINGS: the model that sed makes. An empty script: the settings are wrong.
wrong() {
    local what=$1 expected=$2 script=$3 said
    shift 3
    sed -E "$script" "$model" >wrong.pml
    [ -z "$script" ] || ! cmp -s "$model" wrong.pml || die "$what: nothing was changed"
    said=$(explore wrong.pml "$@") || die "$what: $said"
    grep -q "$expected" <<<"$said" || die "$what: not found, by $*: $said"
    printf 'found: %s\n' "$what"
}

any='WILD LOCKS=1 BUDGET=2'
one_cpu='KERNEL LOCKS=1 THREADS=2 ROUNDS=2 CPUS=1 SWITCHES=2'
crowded='KERNEL LOCKS=1 THREADS=3 ROUNDS=1 CPUS=1 SWITCHES=4'
two_cpus='KERNEL LOCKS=1 THREADS=3 ROUNDS=1 CPUS=2 SWITCHES=2'
never='BUDGET=0 MISSES=0 DIES=0'

# Settings are words.
# shellcheck disable=SC2086
quick() {
    right safety $any THREADS=3 ROUNDS=1
    right progress $any THREADS=2 ROUNDS=2
    right safety WILD LOCKS=2 BUDGET=2 THREADS=2 ROUNDS=2
    right safety WILD LOCKS=1 BUDGET=1 THREADS=3 ROUNDS=1 TIMED
    right progress $one_cpu $never
    right safety $one_cpu BUDGET=2 MISSES=2 DIES=1
    right progress $one_cpu BUDGET=2 MISSES=2 DIES=1
    right progress $crowded $never
    right safety $two_cpus $never
}

# shellcheck disable=SC2086
mutants() {
    wrong "a lock is taken in two steps" "$assertion" \
        's/STEP\(was = word\[l\]; if :: was == FREE -> word\[l\] = HELD/STEP(if :: was == FREE -> word[l] = HELD/' \
        safety $any THREADS=2 ROUNDS=1
    wrong "who comes from sleep takes the lock with 1" "$lost" \
        '/^\t\tsleep\(\);/{n;s/mark/try_word/}' \
        safety $any THREADS=3 ROUNDS=1
    wrong "who frees the lock wakes nobody" "$lost" \
        's/:: was == AWAITED -> STEP\(wake/:: false -> STEP(wake/' \
        safety $any THREADS=2 ROUNDS=1
    wrong "sleep does not look at the word" "$lost" \
        's/:: word\[l\] == AWAITED -> asleep/:: true -> asleep/' \
        safety $any THREADS=2 ROUNDS=1
    wrong "who leaves a queue does not tell the next" "$stuck" \
        's/-> place\[other\] = FIRST/-> skip/' \
        progress $two_cpus $never
    wrong "who leaves a queue tells somebody who has left" "$assertion" \
        's/:: place\[other\] == WAITING -> place/:: true -> place/' \
        safety $any THREADS=3 ROUNDS=2
    wrong "the monitor does not know the windows TRY and MARK" "$assertion" \
        's/owner\[l\] = me; window\[me\] = IN/owner[l] = me/' \
        safety $one_cpu $never
    wrong "the monitor does not know the window RELEASE" "$assertion" \
        's/held\[me\] = 0; window\[me\] = IN/held[me] = 0/' \
        safety $one_cpu $never
    wrong "the counter goes up for a flag that is up" "$assertion" \
        's/critical\(t\) && !flag\[t\] ->/critical(t) ->/' \
        safety $one_cpu BUDGET=2 MISSES=1 DIES=0
    wrong "only the first of a queue counts, as in the paper, and there is no budget" "$stuck" \
        's/assert\(critical\(t\) == truth\(t\)\);//; s/place\[t\] != NONE\)\)/place[t] == FIRST))/' \
        progress $crowded $never
    wrong "no budget, and a preemption that the monitor misses" "$stuck" '' \
        progress $one_cpu BUDGET=0 MISSES=1 DIES=0
}

# shellcheck disable=SC2086
full() {
    right progress $any THREADS=3 ROUNDS=1
    right safety WILD LOCKS=1 BUDGET=4 THREADS=3 ROUNDS=1
    right progress WILD LOCKS=2 BUDGET=2 THREADS=2 ROUNDS=3
    right safety WILD LOCKS=2 BUDGET=1 THREADS=3 ROUNDS=1
    right progress WILD LOCKS=1 BUDGET=1 THREADS=3 ROUNDS=1 TIMED
    right progress $two_cpus $never
    right safety KERNEL LOCKS=1 THREADS=2 ROUNDS=1 CPUS=2 SWITCHES=2 BUDGET=1 MISSES=1 DIES=1
    right progress KERNEL LOCKS=1 THREADS=2 ROUNDS=1 CPUS=2 SWITCHES=2 BUDGET=1 MISSES=1 DIES=1
}

case $size in
quick) ;;
full) full ;;
*) die "unknown size $size: quick and full are known" ;;
esac
quick
mutants
