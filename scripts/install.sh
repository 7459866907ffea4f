#!/usr/bin/env bash
# Builds and installs the C library, `quaver` and its shim: scripts/install.sh [PREFIX], with PREFIX=/usr/local unless given.
# scripts/install.sh --remove [PREFIX] removes them again, whatever version it was.
#
# DESTDIR: put in front of every path, for packages. LIBDIR: lib unless given. PROFILE: release, or debug for tests.
# PARTS: what to install, "library programs" unless given.
#
#   PREFIX/include/quaver.h                     PREFIX/LIBDIR/libquaver.so -> .so.0 -> .so.VERSION, libquaver.a
#   PREFIX/LIBDIR/pkgconfig/quaver.pc           PREFIX/LIBDIR/cmake/quaver/quaver-config.cmake
#   PREFIX/bin/quaver, quaver-as, cargo-quaver  PREFIX/lib/libquaver_shim.so, where `quaver run` looks for it
#   PREFIX/share/quaver/quaver.cmake            PREFIX/lib/libquaver_lock_preload.so, the same of `quaver lock`
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

remove=false
if [ "${1:-}" = --remove ]; then
    remove=true
    shift
fi
prefix=${1:-/usr/local}
case $prefix in
/*) ;;
*) die "PREFIX must be an absolute path, not $prefix" ;;
esac
libdir=${LIBDIR:-lib}
profile=${PROFILE:-release}
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
source=crates/capi

packages=()
for part in ${PARTS:-library programs}; do
    case $part in
    library) packages+=(-p quaver-capi) ;;
    programs) packages+=(-p quaver-cli -p quaver-shim -p quaver-lock-preload -p quaver-probes -p cargo-quaver) ;;
    *) die "unknown part $part in PARTS: library and programs are known" ;;
    esac
done
case $profile in
release | debug) ;;
*) die "unknown PROFILE $profile: release and debug are known" ;;
esac
to=${DESTDIR:-}$prefix

remove_library() {
    rm -f "$to/include/quaver.h" "$to/$libdir/libquaver.a" "$to/$libdir/libquaver.so" "$to/$libdir"/libquaver.so.* \
        "$to/$libdir/pkgconfig/quaver.pc" "$to/$libdir"/cmake/quaver/quaver-config{,-version}.cmake
    remove_empty "$libdir/cmake/quaver" "$libdir/cmake" "$libdir/pkgconfig"
}

remove_programs() {
    rm -f "$to"/bin/{quaver,quaver-as,cargo-quaver} "$to"/lib/libquaver_{shim,lock_preload}.so "$to/share/quaver/quaver.cmake"
    remove_empty share/quaver
}

# remove_empty FOLDER...: where nothing else is in them
remove_empty() {
    local folder
    for folder in "$@"; do
        [ ! -d "$to/$folder" ] || rmdir --ignore-fail-on-non-empty "$to/$folder"
    done
}

if $remove; then
    for part in ${PARTS:-library programs}; do
        "remove_$part" || die "cannot remove the files in $to; run this with more rights"
    done
    case $prefix in
    # The system's own, which are there without anything in them.
    /usr | /usr/local) ;;
    *) remove_empty include bin "$libdir" lib share ;;
    esac
    say "removed what was installed in $to"
    exit
fi

if [ "$profile" = debug ]; then
    "${build_all[@]}" >&2
else
    cargo build --locked --release "${packages[@]}" >&2
fi
built=$(target_dir)/$profile

# put MODE SOURCE TARGET
put() { install -D -m "$1" "$2" "$to/$3" || die "cannot write $to/$3; choose another PREFIX, or run this with more rights"; }

# fill SOURCE TARGET: a template
fill() {
    local text rpath
    text=$(mktemp)
    # The system's own libraries are found anyway.
    [ "$prefix" = /usr ] || rpath="-Wl,-rpath,\${libdir} "
    sed -e "s|@RPATH@|${rpath:-}|g; s|@PREFIX@|$prefix|g; s|@LIBDIR@|$libdir|g; s|@VERSION@|$version|g" "$1" >"$text"
    put 644 "$text" "$2"
    rm -f "$text"
}

install_library() {
    put 644 "$source/include/quaver.h" include/quaver.h
    put 755 "$built/libquaver_capi.so" "$libdir/libquaver.so.$version"
    ln -sf "libquaver.so.$version" "$to/$libdir/libquaver.so.0"
    ln -sf libquaver.so.0 "$to/$libdir/libquaver.so"
    put 644 "$built/libquaver_capi.a" "$libdir/libquaver.a"
    fill "$source/quaver.pc.in" "$libdir/pkgconfig/quaver.pc"
    for file in quaver-config.cmake quaver-config-version.cmake; do
        fill "$source/cmake/$file.in" "$libdir/cmake/quaver/$file"
    done
    say "installed the C library in $to; compile with: cc \$(PKG_CONFIG_PATH=$prefix/$libdir/pkgconfig pkg-config --cflags --libs quaver)"
}

install_programs() {
    put 755 "$built/quaver" bin/quaver
    put 755 "$built/quaver-as" bin/quaver-as
    put 755 "$built/cargo-quaver" bin/cargo-quaver
    put 755 "$built/libquaver_shim.so" lib/libquaver_shim.so
    put 755 "$built/libquaver_lock_preload.so" lib/libquaver_lock_preload.so
    put 644 crates/probes/cmake/quaver.cmake share/quaver/quaver.cmake
    say "installed $to/bin/quaver"
}

for part in ${PARTS:-library programs}; do
    "install_$part"
done
