#!/usr/bin/env bash
# The runtime's tests, and `quaver run`, on newer versions of glibc: scripts/check_glibc.sh PROGRAMS
#
# PROGRAMS: the folder of `quaver`. Programs that were built here run in small installations of newer Debians. Needs
# root, debootstrap and Debian's servers, and says where one is missing.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=scripts/distribution.sh
. "$(dirname "$0")/distribution.sh"

programs=$(realpath "${1:?where is quaver?}")
log=$(mktemp)
trap 'unmount; rm -f "$log"' EXIT

mapfile -t tests < <(cargo test --locked -p quaver --no-run --message-format=json 2>/dev/null |
    sed -n 's/.*"kind":\["\(test\|lib\)"\].*"test":true.*"executable":"\([^"]*\)".*/\2/p')
[ "${#tests[@]}" -gt 10 ] || die "only ${#tests[@]} tests were built"

# inside COMMAND...
inside() { chroot "$system" /usr/bin/env -i -C "$root/crates/runtime" PATH=/usr/bin:/bin HOME=/root "$@"; }

for suite in trixie sid; do
    # A compiler, for tests that load libraries.
    distribution "$suite" gcc libc6-dev gdb xz-utils
    mounts "$root" "$system"
    mounts "$(target_dir)" "$system"
    version=$(inside ldd --version | sed -n '1s/.* //p')
    for test in "${tests[@]}"; do
        # Children of fork keep what other tests have open at that moment.
        inside "$test" --test-threads=2 >"$log" 2>&1 || {
            tail -n 60 "$log" >&2
            die "glibc $version: $test"
        }
    done
    seq 300000 >"$system/tmp/in"
    inside "$programs/quaver" run --quantum 100us -- xz -T2 -kf /tmp/in || die "glibc $version: xz under quaver run"
    inside xz -dc /tmp/in.xz | cmp - "$system/tmp/in" || die "glibc $version: xz under quaver run has written something else"
    say "glibc $version (Debian $suite): ${#tests[@]} test programs, quaver run: ok"
done
