#!/usr/bin/env bash
# Probes in what other versions of gcc and clang write, each in a small installation of the Debian that has it.
#
#   scripts/check_probes_compilers.sh PROGRAMS [BUILDS]
#
# PROGRAMS: the folder of `quaver` and `quaver-as`. BUILDS: how many programs each installation builds; all, in all ways,
# by default. Needs root, debootstrap and Debian's servers, and says where one is missing. The installations are kept in
# the target directory, a gigabyte each.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=scripts/distribution.sh
. "$(dirname "$0")/distribution.sh"

programs=$(realpath "${1:?where is quaver?}")
builds=${2:-}

# suite SUITE COMPILER...: installs them, and runs the selftest with them.
suite() {
    local name=$1 packages=(ca-certificates libc6-dev) list compiler
    shift
    list=$(IFS=,; echo "$*")
    for compiler in "$@"; do
        packages+=("$compiler")
        case $compiler in gcc-*) packages+=("g++-${compiler#gcc-}") ;; esac
    done
    distribution "$name" "${packages[@]}"
    mkdir -p "$system/opt/quaver"
    cp "$programs/quaver" "$programs/quaver-as" "$system/opt/quaver"
    # The words of `--programs` only if there is a number.
    # shellcheck disable=SC2086
    chroot "$system" /usr/bin/env -i PATH=/usr/bin:/bin HOME=/root \
        /opt/quaver/quaver selftest probes --compilers "$list" --hits 10000000 ${builds:+--programs $builds}
}

suite bookworm gcc-11 clang-13 clang-15 clang-16
suite trixie gcc-13 gcc-14 clang-17 clang-18 clang-19
say "programs by nine other compilers: ok"
