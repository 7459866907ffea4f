// Linked around `main` of each program (-Wl,--wrap=main): takes the CPU time of main, alone or beside who interrupts it.
//
//   PROGRAM SCALE REPORT                     alone
//   PROGRAM SCALE REPORT word US CPU         a clock on CPU sets the word of the probes each US, an entry answers
//   PROGRAM SCALE REPORT signal US CPU       the same clock sends a signal
//   PROGRAM SCALE REPORT waiter              another thread yields all the time
//
// REPORT: 64-bit numbers: CPU time in ns without that of the clock, then for each interruption when it was sent, when
// the answer was seen, and for how long the clock was away meanwhile, in ns. The program does nothing for the record.
#define _GNU_SOURCE
#include <cpuid.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

int __real_main(int argc, char **argv, char **envp);

// WORD, COUNTDOWN and ENTRIES, addresses from %fs of words of the thread control block, are whoever's who compiles this.
#define TEXT_OF(macro) TEXT(macro)
#define TEXT(macro) #macro
#define QUIET "movl $0, %fs:" TEXT_OF(COUNTDOWN) "\nmovb $0, %fs:" TEXT_OF(WORD) "\n"

// An entry keeps what the runtime's own keep (crates/runtime/src/arch/probe.rs), and only answers.
#define ENTRY(name, bytes, save, restore)                                                              \
    __asm__(".text\n.type " #name ", @function\n" #name ":\nendbr64\npushfq\n"                         \
            ".irp r, rax, rcx, rdx, rsi, rdi, r8, r9, r10, r11, rbp\npush %\\r\n.endr\n"               \
            "mov %rsp, %rbp\n" bytes "\nand $-64, %rsp\n" save                                         \
            QUIET restore "mov %rbp, %rsp\n"                                                           \
            ".irp r, rbp, r11, r10, r9, r8, rdi, rsi, rdx, rcx, rax\npop %\\r\n.endr\npopfq\nret\n"    \
            ".size " #name ", . - " #name "\n");                                                       \
    void name(void);
#define LOW ".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15\n"
#define HIGH ".irp n, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31\n"
#define MASKS ".irp n, 0, 1, 2, 3, 4, 5, 6, 7\n"
ENTRY(entry_none, "", "", "")
ENTRY(entry_xmm, "sub $256, %rsp", LOW "movaps %xmm\\n, 16 * \\n(%rsp)\n.endr\n",
      LOW "movaps 16 * \\n(%rsp), %xmm\\n\n.endr\n")
ENTRY(entry_ymm, "sub $512, %rsp", LOW "vmovaps %ymm\\n, 32 * \\n(%rsp)\n.endr\nvzeroupper\n",
      LOW "vmovaps 32 * \\n(%rsp), %ymm\\n\n.endr\n")
ENTRY(entry_zmm, "sub $2112, %rsp",
      LOW "vmovaps %zmm\\n, 64 * \\n(%rsp)\n.endr\n" HIGH "vmovaps %zmm\\n, 64 * \\n(%rsp)\n.endr\n" MASKS
          "kmovq %k\\n, 2048 + 8 * \\n(%rsp)\n.endr\nvzeroupper\n",
      LOW "vmovaps 64 * \\n(%rsp), %zmm\\n\n.endr\n" HIGH "vmovaps 64 * \\n(%rsp), %zmm\\n\n.endr\n" MASKS
          "kmovq 2048 + 8 * \\n(%rsp), %k\\n\n.endr\n")
__attribute__((used)) static uint64_t xsave_size;
ENTRY(entry_all, "sub xsave_size(%rip), %rsp",
      "xor %eax, %eax\n" MASKS "mov %rax, 512 + 8 * \\n(%rsp)\n.endr\nmov $-1, %eax\nmov $-1, %edx\nxsave64 (%rsp)\n",
      "mov $-1, %eax\nmov $-1, %edx\nxrstor64 (%rsp)\n")

struct sample {
    uint64_t sent, seen, away;
};

// More are answered, but not recorded.
enum { MOST = 1 << 22 };

static pthread_t program;
static _Atomic uint8_t *word;
static _Atomic uint8_t waiting;
static atomic_bool stop;
static bool by_signal;
static uint64_t quantum_ns;
static int clock_cpu;
static struct sample *samples;
static size_t count;
static uint64_t clock_ns;

static uint64_t now(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static _Noreturn void die(const char *what) {
    perror(what);
    exit(1);
}

static void answer(int signal) {
    (void)signal;
    atomic_store_explicit(&waiting, 0, memory_order_release);
}

static void *keep_time(void *unused) {
    (void)unused;
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(clock_cpu, &cpus);
    if (sched_setaffinity(0, sizeof cpus, &cpus))
        die("cannot move to the clock's CPU");
    _Atomic uint8_t *flag = by_signal ? &waiting : word;
    uint64_t due = now(CLOCK_MONOTONIC) + quantum_ns;
    while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
        uint64_t sent = now(CLOCK_MONOTONIC), seen = sent, away = 0;
        if (sent < due)
            continue;
        atomic_store_explicit(flag, 1, memory_order_release);
        if (by_signal)
            pthread_kill(program, SIGURG);
        while (atomic_load_explicit(flag, memory_order_acquire) && !atomic_load_explicit(&stop, memory_order_relaxed)) {
            uint64_t before = seen;
            seen = now(CLOCK_MONOTONIC);
            if (seen - before > away)
                away = seen - before;
        }
        if (!atomic_load_explicit(flag, memory_order_relaxed) && count < MOST)
            samples[count++] = (struct sample){sent, seen, away};
        while (due <= seen)
            due += quantum_ns;
    }
    clock_ns = now(CLOCK_THREAD_CPUTIME_ID);
    return NULL;
}

static void *yield(void *unused) {
    while (!atomic_load_explicit(&stop, memory_order_relaxed))
        sched_yield();
    return unused;
}

static void prepare_clock(char **argv) {
    by_signal = !strcmp(argv[3], "signal");
    quantum_ns = strtoull(argv[4], NULL, 10) * 1000;
    clock_cpu = atoi(argv[5]);
    program = pthread_self();
    samples = mmap(NULL, MOST * sizeof *samples, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (samples == MAP_FAILED)
        die("cannot map memory for the record");
    uintptr_t block;
    __asm__("mov %%fs:0, %0" : "=r"(block));
    word = (_Atomic uint8_t *)(block + WORD);
    unsigned a, b = 0, c, d;
    __cpuid_count(13, 0, a, b, c, d);
    xsave_size = b < 576 ? 576 : b;
    __builtin_cpu_init();
    void (*wide)(void) = __builtin_cpu_supports("avx512bw") ? entry_zmm : entry_all;
    void (*entries[])(void) = {entry_none, entry_xmm, entry_ymm, wide, entry_all};
    memcpy((void *)(block + ENTRIES), entries, sizeof entries);
    struct sigaction action = {.sa_handler = answer, .sa_flags = SA_RESTART};
    if (by_signal && sigaction(SIGURG, &action, NULL))
        die("cannot handle SIGURG");
}

int __wrap_main(int argc, char **argv, char **envp) {
    if (argc < 3) {
        fprintf(stderr, "usage: %s SCALE REPORT [word US CPU | signal US CPU | waiter]\n", argv[0]);
        return 2;
    }
    bool clocked = argc == 6, waiter = argc == 4;
    if (clocked)
        prepare_clock(argv);
    uint64_t start = now(CLOCK_PROCESS_CPUTIME_ID);
    pthread_t other;
    if ((clocked || waiter) && pthread_create(&other, NULL, clocked ? keep_time : yield, NULL))
        die("cannot start a thread");
    char *arguments[] = {argv[0], argv[1], NULL};
    int result = __real_main(2, arguments, envp);
    atomic_store(&stop, true);
    if ((clocked || waiter) && pthread_join(other, NULL))
        die("cannot join a thread");
    uint64_t cpu_ns = now(CLOCK_PROCESS_CPUTIME_ID) - start - clock_ns;
    if (clocked && !by_signal)
        atomic_store(word, 0);
    FILE *report = fopen(argv[2], "wb");
    if (!report || fwrite(&cpu_ns, sizeof cpu_ns, 1, report) != 1 ||
        fwrite(samples, sizeof *samples, count, report) != count || fclose(report))
        die(argv[2]);
    return result;
}
