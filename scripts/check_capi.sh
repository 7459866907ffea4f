#!/usr/bin/env bash
# The C library as its users have it: installs it into a temporary folder, and builds and runs the tests and examples of
# crates/capi there, with gcc and clang, in C and C++, shared and static, through pkg-config and CMake.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix
PROFILE=debug PARTS=library scripts/install.sh "$prefix"
source=crates/capi
# Without LD_LIBRARY_PATH: what is built as the page says finds the library.
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
unset LD_LIBRARY_PATH

# Symbols: what the header declares, what is interposed, and what gdb looks for, and nothing else.
nm -D --defined-only "$prefix/lib/libquaver.so" | awk '{ print $3 }' | sort >"$work/exported"
{
    grep -o '\bquaver_[a-z_]*(' "$prefix/include/quaver.h" | tr -d '('
    printf '%s\n' syscall nanosleep clock_nanosleep sched_yield QUAVER_GDB dlopen dlmopen dl_iterate_phdr initgroups setgroups \
        set{u,eu,reu,resu,g,eg,reg,resg}id pthread_{mutex_init,getattr_np,getaffinity_np,getschedparam}
} | sort -u >"$work/declared"
# Comments mention functions that the header declares, so nothing is declared by a comment alone.
diff "$work/declared" "$work/exported" || die "quaver.h (left) and libquaver.so (right) differ"
[ "$(objdump -p "$prefix/lib/libquaver.so" | awk '/SONAME/ { print $2 }')" = libquaver.so.0 ] || die "wrong soname"

cflags="-Wall -Wextra -Werror -Wstrict-prototypes -g -O2"
cxxflags="-Wall -Wextra -Werror -g -O2 -std=c++17"
read -ra shared <<<"$(pkg-config --cflags --libs quaver)"
read -ra static_cflags <<<"$(pkg-config --cflags quaver)"
static=("${static_cflags[@]}" "$prefix/lib/libquaver.a" -lgcc_s -lutil -lrt -lpthread -lm -ldl)
programs=0
# For programs with probes.
"${build_all[@]}"
quaver=$(target_dir)/debug/quaver
export XDG_CACHE_HOME=$work/cache

# try NAME COMMAND...: builds with the command and runs the result three times
try() {
    local name=$1 i
    shift
    "$@" -o "$work/$name"
    for i in 1 2 3; do
        timeout 120 "$work/$name" >"$work/out" 2>&1 || die "$name, run $i: status $?: $(cat "$work/out")"
    done
    programs=$((programs + 1))
    printf '%s: %s\n' "$name" "$(tail -n 1 "$work/out")"
}

for cc in gcc clang; do
    if ! have $cc; then
        say "$cc is not installed: left out"
        continue
    fi
    cxx=${cc/gcc/g++}
    cxx=${cxx/clang/clang++}
    # shellcheck disable=SC2086 # lists of options
    {
        try "api-$cc-c11" $cc -std=c11 $cflags $source/c-tests/api.c "${shared[@]}" -lpthread
        try "api-$cc-static" $cc $cflags $source/c-tests/api.c "${static[@]}"
        try "threads-$cc" $cc -std=c11 $cflags $source/c-tests/threads.c "${shared[@]}"
        try "hello-$cc" $cc $cflags $source/c-examples/hello.c "${shared[@]}"
        try "exceptions-$cc" $cxx $cxxflags $source/c-tests/exceptions.cpp "${shared[@]}"
        try "locks-$cc" $cxx $cxxflags $source/c-tests/locks.cpp "${shared[@]}"
        try "locks-$cc-static" $cxx $cxxflags $source/c-tests/locks.cpp "${static[@]}"
        try "pipeline-$cc" $cxx $cxxflags $source/c-examples/pipeline.cpp "${shared[@]}"
        try "probes-$cc" "$quaver" cc $cc $cflags $source/c-tests/probes.c "${shared[@]}"
        try "probes-$cc-static" "$quaver" cc $cc $cflags $source/c-tests/probes.c "${static[@]}"
    }
done
"$work"/hello-gcc | diff <(printf '%s\n' 'quick one: done' 'the quick one says: nothing to wait for' 'busy one: done' 'preemptions: some') - ||
    die "hello.c says something else"
# The program of the page, and its output.
block() { awk -v fence="\`\`\`$1" '$0 == fence { on = 1; next } on && /^```$/ { exit } on' docs/c-api.md; }
block c >"$work/page.c"
try page gcc "$work/page.c" "${shared[@]}"
"$work/page" | diff <(block text) - || die "the program in docs/c-api.md says something else (right)"

# Linked statically it says what is wrong.
if gcc -static "${static_cflags[@]}" "$work/page.c" "$prefix/lib/libquaver.a" -lgcc_eh -lutil -lrt -lpthread -lm -ldl -o "$work/all-static" 2>"$work/log"; then
    "$work/all-static" >"$work/out" 2>&1 && die "a program without a dynamic loader runs"
    grep -q 'needs glibc 2.34 or newer, dynamically linked' "$work/out" || die "linked with -static: $(cat "$work/out")"
else
    die "gcc -static: $(tail -n 3 "$work/log")"
fi
[ "$("$work"/pipeline-gcc)" = "sum: 1598000" ] || die "pipeline.cpp says something else"

if have gdb; then
    gdb -batch -iex "add-auto-load-safe-path $prefix" -ex 'set breakpoint pending on' -ex 'break quaver_join' -ex run \
        -ex 'info uthreads' "$work/hello-gcc" >"$work/out" 2>&1 || true
    grep -Eq '(running|preempted|ready|new) .* busy' "$work/out" || die "gdb shows no user threads of a program with libquaver.so: $(cat "$work/out")"
fi

if have cmake; then
    mkdir "$work/cmake"
    cp $source/c-examples/hello.c "$work/cmake/"
    cat >"$work/cmake/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.13)
project(check C)
find_package(quaver 0.1 REQUIRED)
add_executable(hello hello.c)
target_link_libraries(hello quaver::quaver)
add_executable(hello-static hello.c)
target_link_libraries(hello-static quaver::static)
END
    if ! { cmake -S "$work/cmake" -B "$work/cmake/build" -DCMAKE_PREFIX_PATH="$prefix" &&
        cmake --build "$work/cmake/build"; } >"$work/log" 2>&1; then
        die "CMake: $(cat "$work/log")"
    fi
    for program in hello hello-static; do
        timeout 120 "$work/cmake/build/$program" >/dev/null || die "$program of CMake fails"
        programs=$((programs + 1))
    done
fi

# Removed, nothing is left.
PARTS=library scripts/install.sh --remove "$prefix" 2>/dev/null
left=$(find "$prefix" -mindepth 1)
[ -z "$left" ] || die "make uninstall leaves $left"
printf 'C library: %s programs built and run\n' "$programs"
