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

programs=$(realpath "${1:?where is quaver?}")
builds=${2:-}
kept=$(target_dir)/debian

leave() {
    say "skipped: $*"
    exit 0
}
[ "$(id -u)" -eq 0 ] || leave "compilers of other versions need root to be installed aside"
have debootstrap || leave "debootstrap is not installed (apt-get install debootstrap)"

# The server of this system, if it is a Debian; otherwise the one that debootstrap knows.
mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
    sed -n 's/^\(URIs:\|deb\) *\(http[^ ]*debian\/\?\).*/\2/p' | head -n 1) || true # files that are not there

mounted=
unmount() { for folder in $mounted; do umount "$folder" || true; done; }
trap unmount EXIT

# suite SUITE COMPILER...: installs them, and runs the selftest with them.
suite() {
    local name=$1 root=$kept/$1 packages=(ca-certificates libc6-dev) list compiler
    shift
    list=$(IFS=,; echo "$*")
    for compiler in "$@"; do
        packages+=("$compiler")
        case $compiler in gcc-*) packages+=("g++-${compiler#gcc-}") ;; esac
    done
    if [ ! -e "$root/complete" ]; then
        mkdir -p "$kept"
        rm -rf "$root"
        say "installing Debian $name with $list"
        debootstrap --variant=minbase "$name" "$root" ${mirror:+"$mirror"} >"$kept/$name.log" 2>&1 ||
            leave "cannot install Debian $name: $(tail -n 1 "$kept/$name.log")"
        cp /etc/resolv.conf "$root/etc/resolv.conf"
        chroot "$root" apt-get -qq -y -o APT::Install-Recommends=false install "${packages[@]}" \
            >>"$kept/$name.log" 2>&1 || leave "cannot install $list: $(tail -n 1 "$kept/$name.log")"
        chroot "$root" apt-get clean
        touch "$root/complete"
    fi
    for folder in proc dev; do
        mountpoint -q "$root/$folder" && continue
        mount --bind "/$folder" "$root/$folder"
        mounted="$root/$folder $mounted"
    done
    mkdir -p "$root/opt/quaver"
    cp "$programs/quaver" "$programs/quaver-as" "$root/opt/quaver"
    # The words of `--programs` only if there is a number.
    # shellcheck disable=SC2086
    chroot "$root" /usr/bin/env -i PATH=/usr/bin:/bin HOME=/root \
        /opt/quaver/quaver selftest probes --compilers "$list" --hits 10000000 ${builds:+--programs $builds}
}

suite bookworm gcc-11 clang-13 clang-15 clang-16
suite trixie gcc-13 gcc-14 clang-17 clang-18 clang-19
say "programs by nine other compilers: ok"
