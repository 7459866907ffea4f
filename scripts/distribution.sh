# shellcheck shell=bash
# Small installations of other Debians, for scripts to run programs in; sourced after lib.sh.

kept=$(target_dir)/debian

leave() {
    say "skipped: $*"
    exit 0
}
[ "$(id -u)" -eq 0 ] || leave "another Debian needs root to be installed aside"
have debootstrap || leave "debootstrap is not installed (apt-get install debootstrap)"

# The server of this system, if it is a Debian; otherwise the one that debootstrap knows.
mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
    sed -n 's/^\(URIs:\|deb\) *\(http[^ ]*debian\/\?\).*/\2/p' | head -n 1) || true # files that are not there

mounted=
unmount() { for folder in $mounted; do umount "$folder" || true; done; }
trap unmount EXIT

# mounts FOLDER IN: has it inside, too, at the same place, until the script ends.
mounts() {
    mkdir -p "$2$1"
    mountpoint -q "$2$1" && return
    mount --bind "$1" "$2$1"
    mounted="$2$1 $mounted"
}

# distribution SUITE PACKAGE...: installs it where it is not yet; its folder is in $system afterwards.
distribution() {
    local name=$1
    shift
    system=$kept/$name
    if [ ! -e "$system/complete" ]; then
        mkdir -p "$kept"
        rm -rf "$system"
        say "installing Debian $name"
        debootstrap --variant=minbase "$name" "$system" ${mirror:+"$mirror"} >"$kept/$name.log" 2>&1 ||
            leave "cannot install Debian $name: $(tail -n 1 "$kept/$name.log")"
        cp /etc/resolv.conf "$system/etc/resolv.conf"
        touch "$system/complete"
    fi
    if [ "$(cat "$system/packages" 2>/dev/null)" != "$*" ]; then
        chroot "$system" apt-get -qq -y -o APT::Install-Recommends=false install "$@" >>"$kept/$name.log" 2>&1 ||
            leave "cannot install $*: $(tail -n 1 "$kept/$name.log")"
        chroot "$system" apt-get clean
        printf '%s\n' "$*" >"$system/packages"
    fi
    mounts /proc "$system"
    mounts /dev "$system"
}
