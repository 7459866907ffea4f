/* Times the instructions of user interrupts as one would on hardware: many in a row, by the time-stamp counter. Only the
 * model runs it: it finds the UPID where the model's kernel has put it, and sends to a core that does not answer.
 * What it prints are hundredths of cycles. */
#include "start.h"

#ifndef SIZE
#define SIZE 1000
#endif
#ifndef SENDS
#define SENDS SIZE
#endif

static volatile quaver_word *const upid = (volatile quaver_word *)0x7ffe00000000;
/* Of the UPID: bits 63:32 say which core gets the notification. */
#define OTHER (1ul << 32)
#define ON 1ul

static inline quaver_word now(void) {
    unsigned low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high) : : "memory");
    return (quaver_word)high << 32 | low;
}

/* What eight in each round take beyond what the same rounds take without them. */
#define FOUR(x) x x x x
#define TIME(name, text)                                                                                   \
    do {                                                                                                   \
        quaver_word at = now();                                                                            \
        for (int i = 0; i < SIZE; i++) __asm__ volatile("" : : : "memory");                                \
        quaver_word empty = now() - at;                                                                    \
        at = now();                                                                                        \
        for (int i = 0; i < SIZE; i++) __asm__ volatile(FOUR(text) FOUR(text) : : "r"(index) : "memory"); \
        quaver_word took = now() - at;                                                                     \
        say(name, (took > empty ? took - empty : 0) * 100 / (8ul * SIZE));                                 \
    } while (0)

static int run(void) {
    if (quaver_call(471, (long)quaver_handler, 0, 0)) return 1;
    long fd = quaver_call(473, 1, 0, 0);
    if (fd < 0) return 2;
    long sender = quaver_call(474, fd, 0, 0);
    if (sender < 0) return 3;
    quaver_word index = (quaver_word)sender;
    TIME("clui", "clui\n\t");
    TIME("stui", "stui\n\t");
    __asm__ volatile("clui" : : : "memory");
    /* Each is successful: what the receiver would do, clear ON, is done here. */
    upid[0] |= OTHER;
    quaver_word begin = now();
    for (int i = 0; i < SENDS; i++) {
        __asm__ volatile("senduipi %0" : : "r"(index) : "memory");
        if (!(upid[0] & ON)) return 4;
        upid[0] &= ~ON;
    }
    say("senduipi", (now() - begin) * 100 / SENDS);
    return upid[1] != 2;
}
