# shellcheck shell=bash
# Small Debian trees, unpacked into a cache and used by chroot; sourced, not run.
#
#   tree_of emulator         Bochs, a compiler for the tests, and what makes a bootable image
#   tree_of linux-SUITE      a kernel of that suite, its headers and its compiler
#   tree_of slice            the source of Linux 7, a compiler for it, and QEMU
#   enter TREE COMMAND...    runs a command in a tree
#
# tree_of prints the tree's path and makes it first if it is not there. Packages are resolved by apt against an empty
# system, and unpacked without their scripts: nothing on this machine is changed. A tree is made under another name and
# renamed when it is whole.
#
# QUAVER_VM_CACHE: where (~/.cache/quaver/vm). QUAVER_VM_MIRROR: a Debian mirror (that of this machine's apt).

vm_cache=${QUAVER_VM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/quaver/vm}
vm_keyring=/usr/share/keyrings/debian-archive-keyring.gpg

# What a tree needs to run programs at all.
base_packages=(bash coreutils dash findutils gawk grep sed)

mirror() {
    [ -z "${QUAVER_VM_MIRROR:-}" ] || {
        printf '%s\n' "$QUAVER_VM_MIRROR"
        return
    }
    # shellcheck disable=SC2016 # apt expands it
    apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 2>/dev/null | grep '/debian/*$' | sort -u | head -n 1 |
        grep . || printf 'http://deb.debian.org/debian\n'
}

# apt_in FOLDER ARGUMENT...: apt-get with lists, cache and installed packages of its own.
apt_in() {
    local folder=$1
    shift
    apt-get -qq -o Dir::State="$folder/state" -o Dir::State::status="$folder/status" -o Dir::Cache="$folder/cache" \
        -o Dir::Etc::sourcelist="$folder/sources.list" -o Dir::Etc::sourceparts=/dev/null \
        -o Dir::Etc::preferences=/dev/null -o Dir::Etc::preferencesparts=/dev/null -o Acquire::Languages=none \
        -o Acquire::Retries=3 -o APT::Architecture=amd64 -o APT::Sandbox::User="$(id -un)" \
        -o APT::Install-Recommends=0 -o APT::Install-Suggests=0 "$@" >&2
}

# unpack TREE PACKAGE_FILE [TAR_ARGUMENT...]: links to usr/ stay links.
unpack() {
    local tree=$1 package=$2
    shift 2
    dpkg-deb --fsys-tarfile "$package" | tar -x --keep-directory-symlink --no-same-owner -C "$tree" "$@"
}

# make_tree NAME SUITE PACKAGE...
make_tree() {
    local name=$1 suite=$2 work package dir
    shift 2
    [ -r "$vm_keyring" ] || die "$vm_keyring is missing; install debian-archive-keyring"
    mkdir -p "$vm_cache"
    work=$(mktemp -d "$vm_cache/.$name.XXXXXX")
    say "fetching $name ($suite: $*); once, into $vm_cache"
    mkdir -p "$work"/{state/lists/partial,cache/archives/partial,tree/usr/{bin,sbin,lib,lib64}}
    : >"$work/status"
    for dir in "${suite%-backports}" "$suite"; do
        printf 'deb [signed-by=%s] %s %s main\n' "$vm_keyring" "$(mirror)" "$dir"
    done | sort -u >"$work/sources.list"
    apt_in "$work" update || die "apt cannot read the lists of $suite from $(mirror)"
    apt_in "$work" -y -t "$suite" --download-only install "${base_packages[@]}" "$@" ||
        die "apt cannot fetch $* of $suite from $(mirror)"
    for dir in bin sbin lib lib64; do ln -s "usr/$dir" "$work/tree/$dir"; done
    mkdir -p "$work"/tree/{dev,proc,tmp}
    for package in "$work"/cache/archives/*.deb; do
        case ${package##*/} in
        # Without the modules: the kernel has in itself what the tests need. Its place depends on the version.
        linux-image-*) unpack "$work/tree" "$package" --wildcards '*/vmlinuz*' 2>/dev/null || true ;;
        *) unpack "$work/tree" "$package" || die "cannot unpack ${package##*/}" ;;
        esac
    done
    case $name in linux-*) kernel_of "$work/tree" >/dev/null ;; esac
    # What the packages' scripts would have chosen among alternatives.
    ln -sf gawk "$work/tree/usr/bin/awk"
    rm -rf "$work"/{state,cache,status,sources.list}
    chmod 755 "$work"
    mv -T "$work" "$vm_cache/$name" || die "cannot put $name into $vm_cache"
}

# kernel_of TREE: the image of its kernel
kernel_of() {
    local image
    image=$(find "$1/boot" "$1/usr/lib/modules" -name 'vmlinuz*' -type f 2>/dev/null | sort | tail -n 1) || true
    [ -n "$image" ] || die "there is no kernel in $1"
    printf '%s\n' "$image"
}

# headers_of TREE: the folder, in the tree, in which modules for this kernel are built
headers_of() {
    local folder
    for folder in "$1"/usr/src/linux-headers-*-amd64; do
        [ ! -d "$folder" ] || printf '%s\n' "${folder#"$1"}"
    done | sort | tail -n 1 | grep . || die "there are no kernel headers in $1"
}

tree_of() {
    local name=$1
    if [ ! -d "$vm_cache/$name/tree" ]; then
        case $name in
        emulator)
            # Its terminal's description is in ncurses-base.
            make_tree emulator trixie bochs ncurses-base bochs-term bochsbios vgabios isolinux syslinux-common xorriso busybox-static cpio \
                gzip gcc libc6-dev
            ;;
        slice)
            make_tree slice trixie-backports linux-source make gcc flex bison bc libelf-dev zlib1g-dev libssl-dev dwarves \
                perl-base python3-minimal diffutils xz-utils tar cpio gzip busybox-static qemu-system-x86 seabios
            ;;
        linux-*) make_tree "$name" "${name#linux-}" linux-image-amd64 linux-headers-amd64 make gcc perl-base ;;
        *) die "unknown tree $name" ;;
        esac
    fi
    printf '%s\n' "$vm_cache/$name/tree"
}

# In a mount namespace of its own, which ends with the command. One process: who kills it kills the command. It also
# dies with its parent.
enter() {
    local tree=$1 as_user=()
    shift
    [ "$(id -u)" -eq 0 ] || as_user=(--user --map-root-user)
    # shellcheck disable=SC2016 # the inner shell expands it
    setpriv --pdeathsig TERM unshare "${as_user[@]}" --mount sh -c '
        for dir in dev proc; do mount --rbind "/$dir" "$0/$dir" || exit; done
        exec chroot "$0" "$@"' "$tree" "$@"
}

# enter_for SECONDS TREE COMMAND...: the same; ended after so much CPU time, which a busy machine does not shorten, or
# after three times as long
enter_for() {
    local seconds=$1 tree=$2
    shift 2
    (ulimit -t "$seconds" && enter "$tree" timeout --kill-after=5 "$((3 * seconds))" "$@")
}
