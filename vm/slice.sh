# shellcheck shell=bash
# A kernel with the slice extension, and an emulator that boots it in seconds; sourced after boot.sh.
#
#   slice_kernel             Linux 7 of Debian's source, built once by the options of slice.config; its path is printed
#   boot_slice FILES CPUS LOG SECONDS     the machine: FILES are in /t, and /t/run is executed
#
# Debian builds its kernels without CONFIG_RSEQ_SLICE_EXTENSION.

slice_kernel() {
    local tree kernel work
    tree=$(tree_of slice)
    kernel=$tree/boot/slice-$(sha256sum <vm/slice.config | cut -c 1-16)
    [ -s "$kernel" ] || {
        # shellcheck disable=SC2154 # of roots.sh
        say "building a kernel with the slice extension; once, some ten minutes, into $vm_cache"
        work=$(aside "$tree" "kernel.$$")
        mkdir -p "$tree/boot"
        cp vm/slice.config "$work/"
        # shellcheck disable=SC2016 # the inner shell expands it
        enter "$tree" sh -ec 'cd "$1"
            mkdir source
            tar -xf /usr/src/linux-source-*.tar.xz -C source --strip-components=1 --wildcards --exclude="*/Documentation/*/*"
            cd source
            make -s tinyconfig
            ./scripts/kconfig/merge_config.sh -m .config ../slice.config
            make -s olddefconfig
            while read -r option; do
                case $option in CONFIG_*) grep -qx "$option" .config || { echo "the kernel has no $option" && exit 1; } ;; esac
            done <../slice.config
            make -s -j "$(nproc)" bzImage' sh "/tmp/kernel.$$" >"$work/log" 2>&1 ||
            die "the kernel does not compile: $(tail -n 5 "$work/log")"
        mv "$work/source/arch/x86/boot/bzImage" "$kernel"
        rm -rf "$work"
    }
    printf '%s\n' "$kernel"
}

# build_slice OUT: `quaver`, and the libraries of the tree: its C library registers threads as the extension needs it
build_slice() {
    local out=$1 tree library
    build_quaver "$out" -p quaver-lock-preload
    cp "$(target_dir)/fast/libquaver_lock_preload.so" "$out/"
    tree=$(tree_of slice)
    for library in "$out"/lib/*; do
        cp -L "$tree/usr/lib/x86_64-linux-gnu/${library##*/}" "$library" ||
            die "there is no ${library##*/} in $tree"
    done
}

boot_slice() {
    local files=$1 cpus=$2 log=$3 limit=$4 tree kernel work status=0
    tree=$(tree_of slice)
    kernel=$(slice_kernel)
    work=$(aside "$tree" "boot.$$")
    cp "$kernel" "$work/kernel"
    : >"$files/ends-by-reboot"
    initrd "$tree" "$files" "$work/initrd.gz"
    enter_for "$((cpus * limit))" "$tree" qemu-system-x86_64 -machine q35 -accel tcg,thread=multi -cpu max \
        -smp "$cpus" -m 1024 -nodefaults -display none -no-reboot -serial "file:/tmp/boot.$$/serial" \
        -kernel "/tmp/boot.$$/kernel" -initrd "/tmp/boot.$$/initrd.gz" \
        -append 'quiet console=ttyS0 rdinit=/init panic=-1 loglevel=3' </dev/null >"$work/out" 2>&1 || status=$?
    tr -d '\r' <"$work/serial" >"$log" 2>/dev/null || : >"$log"
    case $status in
    124 | 137) say "the virtual machine was stopped: it has had $limit s of each CPU, or three times as long" ;;
    esac
    [ -s "$log" ] || die "the virtual machine has said nothing: $(tail -n 5 "$work/out")"
    rm -rf "$work"
}
