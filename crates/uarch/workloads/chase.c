/* Follows a chain of pointers through a buffer in random order: each load needs the one before it. `quaver_door` is set
 * when it begins to. */
#include "start.h"

#ifndef SIZE
#define SIZE 100000
#endif
#ifndef NODES
#define NODES 8192
#endif

struct node {
    struct node *next;
    unsigned long value[7]; /* a cache line */
};

static struct node nodes[NODES];
volatile quaver_word quaver_door;

static unsigned order[NODES];

static int run(void) {
    unsigned long random = 88172645463325252ul, sum = 0;
    for (unsigned i = 0; i < NODES; i++) order[i] = i;
    for (unsigned i = NODES - 1; i > 0; i--) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        unsigned j = (unsigned)(random % (i + 1)), t = order[i];
        order[i] = order[j];
        order[j] = t;
    }
    for (unsigned i = 0; i < NODES; i++) {
        nodes[order[i]].next = &nodes[order[(i + 1) % NODES]];
        nodes[order[i]].value[0] = i;
    }
    struct node *at = &nodes[order[0]];
    quaver_door = 1;
    for (unsigned long i = 0; i < SIZE; i++) {
        sum = sum * 3 + at->value[0];
        at = at->next;
        POINT();
    }
    say("chase", sum);
    return 0;
}
