/* A timer core: at each deadline it sends a user interrupt to each receiver. Only the model runs it: it writes the UITT
 * where the model's kernel has put it. The receivers are elsewhere; whoever runs it clears ON of their UPIDs. */
#include "start.h"

#ifndef SIZE
#define SIZE 20
#endif
#ifndef RECEIVERS
#define RECEIVERS 1
#endif
#ifndef PERIOD
#define PERIOD 10000
#endif

struct upid {
    volatile quaver_word word[2];
    quaver_word rest[6];
};
struct upid quaver_upids[64] __attribute__((aligned(64)));
volatile quaver_word quaver_door;

static volatile quaver_word *const uitt = (volatile quaver_word *)0x7ffe00001000;

static inline quaver_word now(void) {
    unsigned low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high) : : "memory");
    return (quaver_word)high << 32 | low;
}

static int run(void) {
    if (quaver_call(471, (long)quaver_handler, 0, 0)) return 1;
    long fd = quaver_call(473, 1, 0, 0);
    if (fd < 0 || quaver_call(474, fd, 0, 0) < 0) return 2;
    for (int i = 0; i < RECEIVERS; i++) {
        quaver_upids[i].word[0] = (quaver_word)(i + 1) << 32 | 0xecul << 16;
        uitt[2 * i] = 1 | 1 << 8;
        uitt[2 * i + 1] = (quaver_word)&quaver_upids[i];
    }
    quaver_door = 1;
    quaver_word busy = 0, late = 0, deadline = now() + PERIOD, silent = 0;
    for (int round = 0; round < SIZE; round++, deadline += PERIOD) {
        quaver_word at = now();
        late += at > deadline;
        while (at < deadline) at = now();
        for (unsigned long i = 0; i < RECEIVERS; i++) {
            silent += quaver_upids[i].word[0] & 1;
            __asm__ volatile("senduipi %0" : : "r"(i) : "memory");
        }
        busy += now() - at;
    }
    say("busy", busy / SIZE);
    say("late", late);
    say("silent", silent);
    return 0;
}
