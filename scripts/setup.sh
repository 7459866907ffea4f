#!/usr/bin/env bash
# Makes sure that what a task needs is installed, and installs only what is missing.
#
#   scripts/setup.sh build          compilers for C and C++, a linker, the pinned Rust
#   scripts/setup.sh build test     also what tests use: without it some are skipped
#   scripts/setup.sh servers        servers of Debian's, and their clients
#
# Debian packages are installed as root, or through sudo. Everything is looked for first, so on a prepared machine this
# does nothing and needs no rights.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

# Packages to install, and what for.
packages=()

can_link() {
    have cc || return 1
    local program
    program=$(mktemp)
    printf 'int main(void) { return 0; }\n' | cc -x c - -o "$program" 2>/dev/null
    local status=$?
    rm -f "$program"
    return "$status"
}

# want COMMAND PACKAGE
want() { have "$1" || packages+=("$2"); }

# The tool that lists libraries is not in the PATH of ordinary users.
has_library() {
    local all
    all=$(PATH=$PATH:/usr/sbin:/sbin ldconfig -p 2>/dev/null) || true
    [[ $all == *"$1"* ]]
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif [ -t 0 ]; then
        sudo "$@"
    else
        sudo -n "$@"
    fi
}

install_packages() {
    local list="${packages[*]}"
    have apt-get || die "missing: $list (Debian's names); please install them with this system's package manager"
    if [ "$(id -u)" -ne 0 ] && ! have sudo; then
        die "missing packages: $list; there is no sudo here, so please run as root: apt-get install $list"
    fi
    say "installing $list"
    as_root apt-get -qq -o DPkg::Lock::Timeout=300 update || say "apt-get update failed; trying with the lists that are here"
    as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get -qq -y -o DPkg::Lock::Timeout=300 install --no-install-recommends "${packages[@]}" >&2 ||
        die "cannot install $list; please install them by hand: apt-get install $list"
}

ensure_rust() {
    have cargo || die "Rust is missing; install it from https://rustup.rs and run this again"
    local channel
    channel=$(sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml)
    if ! have rustup; then
        cargo --version >/dev/null || die "cargo does not work; install Rust $channel from https://rustup.rs"
        say "without rustup, this uses $(cargo --version); the project is developed with Rust $channel"
    elif ! rustup which --toolchain "${RUSTUP_TOOLCHAIN:-$channel}" cargo-clippy >/dev/null 2>&1; then
        say "installing Rust $channel"
        rustup toolchain install "$channel" --profile minimal --component rustfmt --component clippy >&2 ||
            die "rustup cannot install Rust $channel"
    fi
}

[ $# -gt 0 ] || die "usage: scripts/setup.sh build|test|servers ..."
required=false
for task in "$@"; do
    case $task in
    build)
        can_link || packages+=(gcc libc6-dev)
        # For the programs and scenarios of `quaver selftest`.
        want c++ g++
        ensure_rust
        required=true
        ;;
    test)
        want gdb gdb
        want shellcheck shellcheck
        want python3 python3
        # Also compiles the XDP program of AF_XDP devices.
        want clang clang
        # Interfaces of tests in network namespaces.
        want ip iproute2
        want ethtool ethtool
        want ping iputils-ping
        want g++ g++
        # Writes random C programs, for `quaver selftest probes`.
        want csmith csmith
        # Explores the model of quaver-lock.
        want spin spin
        compgen -G '/usr/include/csmith*/csmith.h' >/dev/null || packages+=(libcsmith-dev)
        # For jemalloc, which a test links.
        want make make
        want pkg-config pkg-config
        want cmake cmake
        # What the virtual machine's packages are checked and run with.
        [ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || packages+=(debian-archive-keyring)
        want setpriv util-linux
        # Absent, `quaver selftest` skips it.
        has_library librocksdb || packages+=(librocksdb7.8)
        want pigz pigz
        want xz xz-utils
        want sqlite3 sqlite3
        want kccachetest kyotocabinet-utils
        want memcached memcached
        # Clients of `quaver serve`.
        want redis-cli redis-tools
        want memccapable libmemcached-tools
        want db_bench rocksdb-tools
        # A peer of `quaver bench`, left out when absent.
        [ -e /usr/include/boost/fiber/all.hpp ] || packages+=(libboost-fiber-dev)
        ;;
    servers)
        want python3 python3
        want curl curl
        want memcached memcached
        want memccapable libmemcached-tools
        want redis-server redis-server
        want redis-benchmark redis-tools
        PATH=$PATH:/usr/sbin want nginx nginx-light
        want ab apache2-utils
        ;;
    *) die "unknown task $task: build, test and servers are known" ;;
    esac
done
if [ ${#packages[@]} -gt 0 ]; then
    install_packages
    case " ${packages[*]} " in
    # What was built without it is to be built again.
    *" clang "*) touch crates/net/build.rs ;;
    esac
fi
if $required && ! can_link; then
    die "cannot link a C program: check that gcc and libc6-dev are installed"
fi
