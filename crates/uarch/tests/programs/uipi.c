/* User interrupts as programs see them: to itself, with nesting refused, and from xUI's timer. */
#include "../../workloads/start.h"

typedef unsigned long u64;

static volatile u64 count[64];
static volatile u64 inside, nested;

struct frame {
    u64 rip, flags, rsp;
};

__attribute__((interrupt)) static void handler(struct frame *frame, u64 vector) {
    nested += inside;
    inside = 1;
    count[vector]++;
    if (frame->rsp % 8) count[63]++;
    inside = 0;
}

static inline void send(u64 index) { __asm__ volatile("senduipi %0" : : "r"(index) : "memory"); }
static inline void stui(void) { __asm__ volatile("stui" : : : "memory"); }
static inline void clui(void) { __asm__ volatile("clui" : : : "memory"); }
static inline int testui(void) {
    int on;
    __asm__ volatile("testui" : "=@ccc"(on) : : "memory");
    return on;
}
/* xUI's instructions, which assemblers do not know. */
static inline void set_timer(u64 cycles, u64 mode) {
    __asm__ volatile(".byte 0x66, 0x0f, 0x01, 0xec" : : "a"(cycles), "d"(mode) : "memory");
}
static inline void clear_timer(void) { __asm__ volatile(".byte 0x66, 0x0f, 0x01, 0xed" : : : "memory"); }
static inline u64 now(void) {
    unsigned low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
    return (u64)high << 32 | low;
}

static int run(void) {
    if (quaver_call(471, (long)handler, 0, 0)) return 1;
    if (quaver_call(471, (long)handler, 0, 0) != -16) return 2;
    long fd = quaver_call(473, 5, 0, 0), other = quaver_call(473, 9, 0, 0);
    if (fd < 0 || other < 0 || quaver_call(473, 64, 0, 0) != -22) return 3;
    long index = quaver_call(474, fd, 0, 0), second = quaver_call(474, other, 0, 0);
    if (index < 0 || second < 0 || quaver_call(474, 3, 0, 0) != -9) return 4;

    /* With UIF clear an interrupt waits; several of one vector become one. */
    if (testui()) return 5;
    send((u64)index), send((u64)index), send((u64)second);
    if (count[5] || count[9]) return 6;
    stui();
    if (!testui() || count[5] != 1 || count[9] != 1) return 7;
    for (int i = 0; i < 100; i++) send((u64)index);
    if (count[5] != 101) return 8;
    clui();
    send((u64)index);
    if (testui() || count[5] != 101) return 9;
    stui();
    if (count[5] != 102) return 10;

    /* The timer: periodic, then once, then not at all. */
    if (quaver_call(0x78550001, 7, 0, 0)) return 11;
    u64 begin = now();
    set_timer(1000, 1);
    while (count[7] < 20) __asm__ volatile("pause");
    u64 took = now() - begin;
    if (took < 20000 || took > 20300) return 12;
    u64 deadline = now() + 500;
    set_timer(deadline, 0);
    while (count[7] < 21) __asm__ volatile("pause");
    if (now() < deadline || now() > deadline + 100) return 13;
    for (int i = 0; i < 1000; i++) __asm__ volatile("pause");
    if (count[7] != 21) return 14;
    set_timer(now() + 100, 0);
    clear_timer();
    for (int i = 0; i < 1000; i++) __asm__ volatile("pause");
    if (count[7] != 21) return 15;
    say("delivered", count[5] + count[7] + count[9]);
    return nested || count[63] ? 16 : 0;
}
