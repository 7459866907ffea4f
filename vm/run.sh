#!/usr/bin/env bash
# Boots a stock kernel of Debian with quaver.ko in an emulator that has user interrupts, and runs the tests of vm/tests.
#
#   vm/run.sh [--suite SUITE] [--cpus N] [--seconds N] [TEST...]
#   vm/run.sh --runtime [--suite SUITE]      the runtime itself: the demo, and tests with real user interrupts
#   vm/run.sh --go [--suite SUITE]           programs built by quaver-go, preempted by user interrupts
#   vm/run.sh --slice                        locks that use the slice extension of Linux 7
#   vm/run.sh --fetch [--suite SUITE]        only fetches what it needs
#
# Ends with a line PASS or FAIL for each test of vm/names (.runtime, .go, .slice) that needs no more CPUs than there are,
# and a count. A test that did not run has failed. SUITE: bookworm, trixie (the default), trixie-backports.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/../scripts/lib.sh"
# shellcheck source=vm/roots.sh
. vm/roots.sh
# shellcheck source=vm/boot.sh
. vm/boot.sh
# shellcheck source=vm/slice.sh
. vm/slice.sh

cpus=2 suite=trixie seconds=600 only=() fetch='' part='' names=vm/names
while [ $# -gt 0 ]; do
    case $1 in
    --cpus) cpus=${2:?how many CPUs?} && shift ;;
    --suite) suite=${2:?which suite?} && shift ;;
    --seconds) seconds=${2:?how long?} && shift ;;
    --fetch) fetch=1 ;;
    --runtime | --go | --slice) part=${1#--} names=vm/names.${1#--} seconds=900 ;;
    -*) die "unknown option $1" ;;
    *)
        grep -q "^$1 " "$names" || die "$names has no test $1"
        only+=("$1")
        ;;
    esac
    shift
done
[[ $cpus =~ ^[1-8]$ ]] || die "--cpus $cpus: a number from 1 to 8 is needed"

if [ "$part" = slice ]; then
    trees=("$(tree_of slice)")
else
    kernel_tree=$(tree_of "linux-$suite")
    trees=("$(tree_of emulator)" "$kernel_tree")
fi
[ -z "$fetch" ] || exit 0

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"; for tree in "${trees[@]}"; do rm -rf "$tree"/tmp/*."$$"; done' EXIT
mkdir "$scratch/files"
if [ -n "$part" ]; then
    "build_$part" "$scratch/files"
    cp "vm/$part" "$scratch/files/tests"
    tests=". /t/tests"
fi
if [ "$part" = slice ]; then
    printf '%s\n' "$tests" >"$scratch/files/run"
    boot_slice "$scratch/files" "$cpus" "$scratch/log" "$seconds"
else
    build_module "$kernel_tree" "$scratch"
    build_tests "$scratch"
    cp "$scratch/quaver.ko" "$scratch/files/"
    [ -n "$part" ] || {
        cp "$scratch/tests" "$scratch/files/"
        tests="/t/tests ${only[*]}"
    }
    # An interruption takes thousands of instructions, and is to be short beside a quantum of the tests.
    [ "$part" != runtime ] || vm_mips=400
    cat >"$scratch/files/run" <<RUN
insmod /t/quaver.ko && echo 'PASS module-loads'
$tests
rmmod quaver && echo 'PASS module-unloads'
RUN
    image "$kernel_tree" "$scratch/files" "$scratch/image.iso"
    boot "$scratch/image.iso" "$cpus" "$scratch/log" "$seconds"
fi
# Nothing was said that only a kernel in trouble says.
if grep -q '^DONE' "$scratch/log" && ! grep -q '^KERNEL' "$scratch/log"; then
    echo 'PASS kernel-undisturbed' >>"$scratch/log"
fi

passed=0 failed=0
while read -r name needs; do
    [ "$needs" -le "$cpus" ] || continue
    [ "${#only[@]}" -eq 0 ] || case " ${only[*]} module-loads module-unloads kernel-undisturbed " in
    *" $name "*) ;;
    *) continue ;;
    esac
    if grep -q "^PASS $name\( \|$\)" "$scratch/log"; then
        passed=$((passed + 1))
        printf 'PASS %s\n' "$name"
    else
        failed=$((failed + 1))
        printf 'FAIL %s\n' "$name"
    fi
done <"$names"
unknown=$(sed -n 's/^\(PASS\|FAIL\) \([^ ]*\).*/\2/p' "$scratch/log" | grep -vxFf <(cut -d' ' -f1 "$names")) || true
[ -z "$unknown" ] || die "$names lacks $unknown"
printf '%s with %s CPUs: %s passed, %s failed\n' "$(sed -n 's/^kernel \([^,]*\),.*/\1/p' "$scratch/log")" "$cpus" \
    "$passed" "$failed"
[ "$failed" -eq 0 ] || {
    cat "$scratch/log" >&2
    exit 1
}
