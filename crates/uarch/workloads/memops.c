/* Copies and sums over a buffer larger than the second-level cache's ways: loads and stores in order. */
#include "start.h"

#ifndef SIZE
#define SIZE 4
#endif
#ifndef WORDS
#define WORDS 16384
#endif

static unsigned long from[WORDS], to[WORDS];

static int run(void) {
    unsigned long sum = 0;
    for (int i = 0; i < WORDS; i++) from[i] = (unsigned long)i * 2654435761u;
    for (int round = 0; round < SIZE; round++) {
        for (int i = 0; i < WORDS; i++) to[i] = from[i] ^ sum;
        for (int i = 0; i < WORDS; i += 4) sum += to[i] + to[(i * 7) % WORDS];
        for (int i = 0; i < WORDS; i++) from[i] = to[WORDS - 1 - i] + (unsigned long)round;
    }
    say("memops", sum);
    return 0;
}
