/* Threads on several cores, and the slow paths of user interrupts. The first argument says which. The status is 0, or
 * the line of the check that failed. */
#include "../../workloads/start.h"

typedef unsigned long u64;

struct frame {
    u64 rip, flags, rsp;
};

enum { STACK = 16384 };
static char stacks[4][STACK] __attribute__((aligned(16)));
static volatile u64 count[64], signals, ready, done, other;

#define CHECK(what)                 \
    do {                            \
        if (!(what)) failed(__LINE__); \
    } while (0)
__attribute__((noreturn)) static void failed(int line) {
    quaver_call(231, line & 255, 0, 0);
    __builtin_unreachable();
}

/* Begins a thread on the caller's core. */
static void start(void (*what)(void), int number) {
    register long flags __asm__("rdi") = 0x10100;
    register char *stack __asm__("rsi") = stacks[number] + STACK;
    __asm__ volatile("mov $56, %%eax\n\tsyscall\n\ttest %%eax, %%eax\n\tjnz 1f\n\txor %%ebp, %%ebp\n\tcall *%2\n\t"
                     "mov $60, %%eax\n\txor %%edi, %%edi\n\tsyscall\n1:"
                     : "+r"(flags), "+r"(stack)
                     : "b"(what)
                     : "rax", "rcx", "rdx", "r8", "r9", "r10", "r11", "memory", "cc");
}

static void yield(void) { quaver_call(24, 0, 0, 0); }
static void move(int core) {
    u64 mask = 1ul << core;
    CHECK(quaver_call(203, 0, sizeof mask, (long)&mask) == 0);
    unsigned now = 99;
    CHECK(quaver_call(309, (long)&now, 0, 0) == 0 && now == (unsigned)core);
}
static inline void send(long index) { __asm__ volatile("senduipi %0" : : "r"(index) : "memory"); }
static inline void stui(void) { __asm__ volatile("stui" : : : "memory"); }
static inline void set_timer(u64 cycles, u64 mode) {
    __asm__ volatile(".byte 0x66, 0x0f, 0x01, 0xec" : : "a"(cycles), "d"(mode) : "memory");
}
static inline u64 now(void) {
    unsigned low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
    return (u64)high << 32 | low;
}

__attribute__((interrupt, target("general-regs-only"))) static void handler(struct frame *frame, u64 vector) {
    /* 7 and 8 belong to the first thread, whose stack is another one. */
    char *stack = (char *)frame->rsp;
    CHECK(vector < 7 || stack < stacks[0] || stack > stacks[3] + STACK);
    count[vector]++;
}

/* Takes user interrupts with this vector. Says the descriptor for senders. */
static long receive(int vector) {
    CHECK(quaver_call(471, (long)handler, 0, 0) == 0);
    long file = quaver_call(473, vector, 0, 0);
    CHECK(file > 0);
    stui();
    return file;
}

static void receiver(void) {
    u64 file = (u64)receive(5);
    ready = file;
    while (!done) yield();
}

/* One core: what is sent while the receiver does not run is suppressed, and reposted when it does (3.2). */
static void suppressed(void) {
    start(receiver, 0);
    while (!ready) yield();
    long index = quaver_call(474, (long)ready, 0, 0);
    CHECK(index >= 0);
    for (u64 i = 1; i <= 10; i++) {
        send(index), send(index), send(index);
        CHECK(count[5] == i - 1);
        for (int turns = 0; count[5] < i && turns < 5; turns++) yield();
        CHECK(count[5] == i);
    }
    done = 1;
}

static void on_core_1(void) {
    move(1);
    u64 file = (u64)receive(5);
    ready = file;
    while (!done) __asm__ volatile("pause");
}

/* Sends so many, each when the last has come. */
static void sends(u64 number) {
    while (!ready) __asm__ volatile("pause");
    long index = quaver_call(474, (long)ready, 0, 0);
    CHECK(index >= 0);
    for (u64 i = 1; i <= number; i++) {
        send(index);
        u64 until = now() + 400000;
        while (count[5] < i) CHECK(now() < until);
    }
    done = 1;
}

/* Two cores: the fast path. */
static void across(void) {
    start(on_core_1, 0);
    sends(50);
}

static void wanders(void) {
    u64 file = (u64)receive(5);
    ready = file;
    for (int turn = 0; !done; turn++) {
        move(1 + turn % 2);
        for (int i = 0; i < 500 && !done; i++) __asm__ volatile("pause");
    }
}

/* Three cores: the receiver moves between two of them all the time. */
static void migrates(void) {
    start(wanders, 0);
    yield();
    sends(100);
}

static void computes(void) {
    for (int i = 0; i < 30000; i++) __asm__ volatile("pause");
    CHECK(count[7] == 0 || done);
    other = 1;
}

/* One core: a timer expires while another thread runs, and fires for its own when that comes back (4.3). */
static void timer(void) {
    receive(5);
    CHECK(quaver_call(0x78550001, 7, 0, 0) == 0);
    start(computes, 0);
    u64 begin = now();
    set_timer(begin + 10000, 0);
    yield();
    while (!count[7]) CHECK(now() < begin + 400000);
    CHECK(count[7] == 1 && now() > begin + 30000);
    CHECK(other == 1);
    /* In periods: those that have passed meanwhile are one. */
    done = 1, other = 0;
    set_timer(2000, 1);
    start(computes, 1);
    yield();
    CHECK(other == 1);
    u64 seen = count[7];
    CHECK(seen >= 1 && seen < 25);
    while (count[7] < seen + 5) CHECK(now() < begin + 4000000);
}

/* What shares the cores of a thread that moves. */
static void occupies(void) {
    move((int)other++ + 1);
    while (!done) yield();
}

/* Three cores: a timer fires on the core that its thread has come to, and not on the one that it has left (4.3). */
static void timer_moves(void) {
    start(occupies, 0), start(occupies, 1);
    yield(), yield();
    move(1);
    receive(7);
    CHECK(quaver_call(0x78550001, 7, 0, 0) == 0);
    /* Once: its deadline passes while the thread moves. */
    u64 begin = now();
    set_timer(begin + 2000, 0);
    CHECK(count[7] == 0);
    move(2);
    while (count[7] < 1) CHECK(now() < begin + 400000);
    /* In periods, on one core and the other. */
    set_timer(4000, 1);
    for (int turn = 0; turn < 6; turn++) {
        u64 seen = count[7];
        while (count[7] < seen + 3) CHECK(now() < begin + 4000000);
        move(1 + turn % 2);
    }
    done = 1;
}

static void bystander(void) {
    while (!done) {
        other++;
        yield();
    }
}

/* One core: a device interrupts a thread while it runs, and while it does not (4.5). */
static void device(void) {
    receive(5);
    CHECK(quaver_call(0x78550003, 12, 8, 0) == -22);
    CHECK(quaver_call(0x78550003, 200, 8, 0) == 0);
    start(bystander, 0);
    /* The first comes at cycle 400,000, when mostly this thread runs. The next ones come whenever. */
    while (now() < 500000) __asm__ volatile("pause");
    CHECK(count[8] == 1);
    while (now() < 1500000) yield();
    CHECK(count[8] >= 5 && other > 50);
    done = 1;
}

/* Three cores: forwarded_active moves with the thread, and what the kernel has kept for it (4.5). The times are those
 * of the devices. */
static void device_moves(void) {
    start(bystander, 0);
    move(1);
    receive(5);
    CHECK(quaver_call(0x78550003, 200, 8, 0) == 0);
    while (now() < 400000) __asm__ volatile("pause");
    CHECK(count[8] == 1);
    move(2);
    while (now() < 600000) __asm__ volatile("pause");
    /* Sent to core 1, where nobody is: kept until the kernel runs this thread the next time. */
    CHECK(count[8] == 1);
    move(1);
    CHECK(count[8] == 2);
    move(2);
    while (now() < 800000) __asm__ volatile("pause");
    CHECK(count[8] == 3);
    while (now() < 1000000) __asm__ volatile("pause");
    CHECK(count[8] == 3);
    yield(), move(2);
    while (now() < 1100000) yield();
    move(1), move(2);
    CHECK(count[8] == 4);
    done = 1;
}

static void rings(int signal) { signals += signal == 14; }
__asm__(".globl restorer\nrestorer:\n\tmov $15, %eax\n\tsyscall\n");
void restorer(void);

/* One core: setitimer and nanosleep. */
static void alarms(void) {
    u64 action[4] = {(u64)rings, 0x04000000, (u64)restorer, 0};
    CHECK(quaver_call(13, 14, (long)action, 0) == 0);
    u64 every[4] = {0, 20, 0, 20}; /* 20 us: 40,000 cycles */
    u64 begin = now();
    CHECK(quaver_call(38, 0, (long)every, 0) == 0);
    for (u64 i = 1; i <= 5; i++) {
        CHECK(quaver_call(34, 0, 0, 0) == -4);
        while (signals < i) CHECK(now() < begin + 1000000);
    }
    u64 took = now() - begin;
    CHECK(took > 200000 && took < 280000);
    /* It also comes while the program computes, and leaves its registers alone. */
    u64 sum = 0, turns = 0;
    for (; signals < 8; turns++) sum += turns;
    CHECK(turns > 1000 && sum == turns * (turns - 1) / 2);
    u64 none[4] = {0, 0, 0, 0}, before = signals;
    CHECK(quaver_call(38, 0, (long)none, 0) == 0);
    u64 sleep[2] = {0, 50000}, from = now();
    CHECK(quaver_call(35, (long)sleep, 0, 0) == 0);
    CHECK(now() >= from + 100000 && now() < from + 120000 && signals == before);
}

static void adds(void) {
    if (ready) move(1);
    for (int i = 0; i < 1000; i++) __asm__ volatile("lock incq %0" : "+m"(other));
    __asm__ volatile("lock incq %0" : "+m"(done));
}

/* Two cores add to one word. */
static void atomics(void) {
    ready = 1;
    start(adds, 0);
    yield();
    ready = 0;
    adds();
    while (done < 2) __asm__ volatile("pause");
    CHECK(other == 2000);
}

/* Nobody will wake it. */
static void waits(void) { quaver_call(34, 0, 0, 0); }

#ifndef TEST
#define TEST suppressed
#endif
static int run(void) {
    void (*all[])(void) = {suppressed,  across,       migrates, timer,   timer_moves,
                            device,      device_moves, alarms,   atomics, waits};
    (void)all;
    TEST();
    return 0;
}
