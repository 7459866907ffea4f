/* Offloads requests to an accelerator, one at a time, and works on something else meanwhile if it can. It submits by a
 * store to quaver_door; the accelerator sets quaver_done. MODE 0 spins, 1 waits for the device's interrupt, 2 looks
 * when a timer fires: EXPECTED cycles after the submission, then each AGAIN cycles. */
#include "start.h"

#ifndef SIZE
#define SIZE 100
#endif
#ifndef MODE
#define MODE 0
#endif
#ifndef EXPECTED
#define EXPECTED 4000
#endif
#ifndef AGAIN
#define AGAIN 4000
#endif

volatile quaver_word quaver_door __attribute__((aligned(64)));
volatile quaver_word quaver_done __attribute__((aligned(64)));
static volatile quaver_word finished __attribute__((aligned(64)));

static inline void submit(void) { quaver_door = finished + 1; }

#if MODE == 2
/* As setitimer, once: the kernel is asked, here by a call that does nothing, and knows when. What its alarm costs is
 * up to whoever runs this. */
static inline void timer(quaver_word cycles) {
    quaver_call(39, 0, 0, 0);
    unsigned low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high) : : "memory");
    cycles += (quaver_word)high << 32 | low;
    __asm__ volatile(".byte 0x66, 0x0f, 0x01, 0xec" : : "a"(cycles), "d"(0) : "memory");
}
#else
static inline void timer(quaver_word cycles) { (void)cycles; }
#endif

/* Takes what is done, and submits the next request. */
static inline void take(void) {
    if (!quaver_done) {
        timer(AGAIN);
        return;
    }
    quaver_done = 0;
    finished = finished + 1;
    submit();
    timer(EXPECTED);
}

__attribute__((interrupt, target("general-regs-only"), unused)) static void handler(struct quaver_frame *frame,
                                                                                  quaver_word vector) {
    (void)frame, (void)vector;
    take();
}

/* 64 cycles of work. */
static quaver_word work(quaver_word x) {
#define EIGHT "add $1, %0\n\tadd $1, %0\n\tadd $1, %0\n\tadd $1, %0\n\tadd $1, %0\n\tadd $1, %0\n\tadd $1, %0\n\tadd $1, %0\n\t"
    __asm__ volatile(EIGHT EIGHT EIGHT EIGHT EIGHT EIGHT EIGHT EIGHT : "+r"(x));
    return x;
}

static int run(void) {
    quaver_word worked = 0;
#if MODE != 0
    const long vector = 1;
    if (quaver_call(471, (long)handler, 0, 0) || quaver_call(0x78550001, vector, 0, 0)) return 1;
    __asm__ volatile("stui" : : : "memory");
    submit();
    timer(EXPECTED);
    while (finished < SIZE) worked = work(worked);
    __asm__ volatile("clui" : : : "memory");
#else
    (void)work, (void)timer;
    submit();
    while (finished < SIZE) {
        while (!quaver_done) __asm__ volatile("pause");
        take();
    }
#endif
    say("worked", worked);
    return 0;
}
