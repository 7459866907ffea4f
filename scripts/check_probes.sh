#!/usr/bin/env bash
# The programs of bench/programs, and that a program built by `quaver cc` is preempted at its probes. That probes change
# no result is the affair of `quaver selftest probes`.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

"${build_all[@]}"
quaver=$(target_dir)/debug/quaver
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME=$work/cache
compilers=(cc)
if have clang; then compilers+=(clang); fi

bench/programs/check.sh

# Two threads on one worker: the word is set, and the probes see it.
cat >"$work/spin.c" <<'EOF'
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
static void *work(void *seed) {
    uint64_t x = (uintptr_t)seed;
    for (long i = 0; i < 30000000; i++)
        x = (x ^ x >> 29) * 6364136223846793005u + 1442695040888963407u;
    return (void *)(uintptr_t)x;
}
int main(void) {
    pthread_t threads[2];
    for (uintptr_t i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, work, (void *)i);
    for (int i = 0; i < 2; i++) {
        void *x;
        pthread_join(threads[i], &x);
        printf("%p\n", x);
    }
}
EOF
for compiler in "${compilers[@]}"; do
    "$quaver" cc "$compiler" -O2 -o "$work/spin" "$work/spin.c" -lpthread
    plain=$("$work/spin")
    probed=$("$quaver" run --workers 1 --quantum 5us --policy rr --notification probe --stats-json "$work/stats" \
        -- "$work/spin")
    [ "$plain" = "$probed" ] || die "preempted at probes, spin by $compiler prints \"$probed\" and not \"$plain\""
    taken=$(sed -n 's/.*"preempt_at_probe": *\([0-9]*\).*/\1/p' "$work/stats")
    [ "${taken:-0}" -ge 100 ] || die "spin by $compiler: $taken preemptions at probes: $(cat "$work/stats")"
    say "spin by $compiler: $taken preemptions at probes"
done

# What cannot be is said.
refused() {
    local want=$1 message
    shift
    if message=$("$quaver" cc "$@" 2>&1); then die "quaver cc $* succeeds"; fi
    [[ $message == *"$want"* ]] || die "quaver cc $*: $message"
}
refused "quaver cc is for C and C++" rustc --version
refused "no-such-compiler in PATH" no-such-compiler -c x.c
QUAVER_AS=$work/nothing refused "cannot find quaver-as" gcc -c x.c
if have clang; then refused "leave -flto out" clang -flto -c x.c; fi
