# shellcheck shell=bash
# Builds what a virtual machine needs, and boots it; sourced after roots.sh.
#
#   build_module TREE OUT             kmod/ for the kernel of TREE: OUT/quaver.ko
#   build_tests OUT                   vm/tests and the emulator's correction: OUT/tests, OUT/fix.so
#   build_runtime OUT                 `quaver`, tests of the runtime, and OUT/lib
#   build_go OUT                      programs of quaver-go's tests and benchmarks, built by it
#   image TREE FILES OUT              a bootable image: FILES are in /t of the machine, and /t/run is executed
#   boot IMAGE CPUS LOG SECONDS       the emulator; what the machine says is in LOG

# The speed that the guest believes in, in instructions a microsecond: its clock follows from it. A caller may change it.
vm_mips=50

# The emulator has no fast string operations but says FSRM (bit 580), and Linux 6.1 then copies without end: it must not
# know.
vm_kernel_options="quiet clearcpuid=580 lapic=notscdeadline nohz=off highres=off console=ttyS0,115200 nokaslr mitigations=off nopti
    no5lvl random.trust_cpu=on rdinit=/init cryptomgr.notests audit=0 apparmor=0
    nmi_watchdog=0 8250.nr_uarts=1 cpufreq.off=1 loglevel=3"

# with_libraries PROGRAM OUT NAME: the program, stripped, as OUT/NAME, and its libraries in OUT/lib
with_libraries() {
    local program=$1 out=$2 name=$3 library
    mkdir -p "$out/lib"
    strip -o "$out/$name" "$program" || die "cannot strip $program"
    ldd "$program" | grep -o '/[^ ]*' | while read -r library; do cp -L "$library" "$out/lib/"; done
}

# build_test OUT NAME ARGUMENT...: a test of the package that the arguments name
build_test() {
    local out=$1 name=$2
    shift 2
    with_libraries "$(cargo test --locked --quiet "$@" --test "$name" --no-run --message-format=json |
        sed -n 's/.*"kind":\["test"\].*"executable":"\([^"]*\)".*/\1/p' | tail -n 1)" "$out" "$name"
}

# build_quaver OUT [ARGUMENT...]: `quaver`, and what the arguments name, which is built with it
build_quaver() {
    local out=$1
    shift
    cargo build --locked --quiet --profile fast -p quaver-cli "$@" || die "quaver cannot be built"
    with_libraries "$(target_dir)/fast/quaver" "$out" quaver
}

# build_runtime OUT: `quaver` and tests of the runtime, built here for a guest with their libraries
build_runtime() {
    local out=$1 test
    build_quaver "$out"
    for test in user_interrupts preempt; do build_test "$out" "$test" --profile fast -p quaver; done
    for test in switch queue; do build_test "$out" "$test" --profile fast -p quaver-share --features broker; done
}

# build_go OUT: programs that need no library, by the Go that is here
build_go() {
    local out=$1 tool program
    tool=$(mktemp)
    (
        export GOWORK=off GOTOOLCHAIN=local GOFLAGS=-buildvcs=false CGO_ENABLED=0
        cd go
        go build -o "$tool" ./cmd/quaver-go
        for program in hog stress corpus; do
            "$tool" build -o "$out/$program" -ldflags=-s "./test/testdata/$program"
        done
        go run ./test/testdata/corpus >"$out/output"
        cd bench
        for program in compute badger1; do "$tool" build -o "$out/$program" -ldflags=-s "./$program"; done
        go build -o "$out/overtake" -ldflags=-s ./overtake
    ) || die "the Go programs cannot be built"
    rm "$tool"
}

# aside TREE NAME: an empty folder in the tree, seen there as /tmp/NAME; printed
aside() {
    rm -rf "${1:?}/tmp/$2"
    mkdir -p "$1/tmp/$2"
    printf '%s\n' "$1/tmp/$2"
}

build_module() {
    local tree=$1 out=$2 work
    work=$(aside "$tree" "kmod.$$")
    cp kmod/*.c kmod/*.h kmod/Kbuild "$work/"
    enter "$tree" make -s -C "$(headers_of "$tree")" M="/tmp/kmod.$$" modules >"$out/module.log" 2>&1 ||
        die "the module does not compile: $(cat "$out/module.log")"
    cp "$work/quaver.ko" "$out/"
    rm -rf "$work"
}

build_tests() {
    local out=$1 tree work
    tree=$(tree_of emulator)
    work=$(aside "$tree" "tests.$$")
    mkdir -p "$work/vm" "$work/kmod"
    cp -r vm/tests vm/bochs-fix.c "$work/vm/"
    cp kmod/quaver.h "$work/kmod/"
    # shellcheck disable=SC2016 # the inner shell expands it
    enter "$tree" sh -c 'cd "$1/vm" && gcc -O2 -Wall -Wextra -Werror -muintr -static -pthread -o ../tests tests/*.c tests/*.S &&
        gcc -O2 -Wall -Wextra -Werror -shared -fPIC -o ../fix.so bochs-fix.c' sh "/tmp/tests.$$" ||
        die "the tests of vm/ do not compile"
    cp "$work/tests" "$work/fix.so" "$out/"
    rm -rf "$work"
}

# initrd TREE FILES OUT: packed by the programs of a tree
initrd() {
    local tree=$1 files=$2 out=$3 work
    work=$(aside "$tree" "initrd.$$")
    mkdir -p "$work"/root/{bin,dev,proc,sys,tmp,t}
    cp "$tree/usr/bin/busybox" "$work/root/bin/"
    cp vm/init "$work/root/init"
    chmod 755 "$work/root/init"
    cp -r "$files/." "$work/root/t/"
    # shellcheck disable=SC2016 # the inner shell expands it
    enter "$tree" sh -c 'cd "$1/root" && find . | cpio -o -H newc --quiet | gzip -1 >../initrd.gz' sh "/tmp/initrd.$$" ||
        die "the files of the machine cannot be packed"
    mv "$work/initrd.gz" "$out"
    rm -rf "$work"
}

image() {
    local kernel_tree=$1 files=$2 out=$3 tree work
    tree=$(tree_of emulator)
    work=$(aside "$tree" "image.$$")
    mkdir -p "$work/iso/isolinux"
    initrd "$tree" "$files" "$work/iso/initrd.gz"
    cp "$(kernel_of "$kernel_tree")" "$work/iso/vmlinuz"
    cp "$tree/usr/lib/ISOLINUX/isolinux.bin" "$tree/usr/lib/syslinux/modules/bios/ldlinux.c32" "$work/iso/isolinux/"
    printf 'SERIAL 0 115200\nDEFAULT l\nPROMPT 0\nTIMEOUT 1\nLABEL l\n KERNEL /vmlinuz\n INITRD /initrd.gz\n APPEND %s\n' \
        "$(tr -s ' \n' ' ' <<<"$vm_kernel_options tsc_early_khz=$((vm_mips * 1000))")" >"$work/iso/isolinux/isolinux.cfg"
    # shellcheck disable=SC2016 # the inner shell expands it
    enter "$tree" sh -c 'cd "$1" &&
        xorriso -as mkisofs -quiet -o image.iso -b isolinux/isolinux.bin -c isolinux/boot.cat -no-emul-boot \
            -boot-load-size 4 -boot-info-table iso' sh "/tmp/image.$$" >"$work/log" 2>&1 ||
        die "no bootable image could be made: $(tail -n 5 "$work/log")"
    mv "$work/image.iso" "$out"
    rm -rf "$work"
}

boot() {
    local image=$1 cpus=$2 log=$3 limit=$4 tree work status=0
    tree=$(tree_of emulator)
    work=$(aside "$tree" "boot.$$")
    cp "$image" "$work/image.iso"
    cp "${image%/*}/fix.so" "$work/"
    printf 'c\n' >"$work/rc"
    # Bochs follows the host's clock nowhere: a guest that the host stops sees no jump.
    cat >"$work/bochsrc" <<CONF
config_interface: textconfig
display_library: term
romimage: file=/usr/share/bochs/BIOS-bochs-latest, options=fastboot
vgaromimage: file=/usr/share/vgabios/vgabios.bin
cpu: model=sapphire_rapids, count=$cpus, ips=$((vm_mips * 1000000)), reset_on_triple_fault=0, ignore_bad_msrs=1, \
exclude_features="amx,amx_int8,amx_bf16"
memory: guest=512, host=512
clock: sync=none, time0=utc
ata0: enabled=1, ioaddr1=0x1f0, ioaddr2=0x3f0, irq=14
ata0-master: type=cdrom, path=/tmp/boot.$$/image.iso, status=inserted
boot: cdrom
com1: enabled=1, mode=file, dev=/tmp/boot.$$/serial
log: /tmp/boot.$$/log
panic: action=report
error: action=report
info: action=ignore
debug: action=ignore
pci: enabled=1, chipset=i440fx
CONF
    # A guest that switches itself off ends Bochs with status 1: what it has said decides.
    enter_for "$limit" "$tree" env TERM=linux LD_PRELOAD="/tmp/boot.$$/fix.so" \
        bochs-bin -q -unlock -f "/tmp/boot.$$/bochsrc" -rc "/tmp/boot.$$/rc" </dev/null >"$work/out" 2>&1 || status=$?
    tr -d '\r' <"$work/serial" >"$log" 2>/dev/null || : >"$log"
    case $status in
    99) die "$(grep bochs-fix "$work/out")" ;;
    124 | 137) say "the virtual machine was stopped: it has had $limit s of CPU time, or three times as long" ;;
    esac
    [ -s "$log" ] || {
        tail -n 5 "$work/out" "$work/log" >&2
        die "the virtual machine has said nothing"
    }
    rm -rf "$work"
}
