/* Threads that only preemption takes a worker from. For programs with threads. */
#ifndef PREEMPTED_H
#define PREEMPTED_H

#include "check.h"

#include <pthread.h>

static inline void *set_flag(void *flag) {
    __atomic_store_n((int *)flag, 1, __ATOMIC_RELAXED);
    return flag;
}

/* A thread that waits for another without giving way is preempted. */
static inline void expect_preemption(void) {
    int flag = 0;
    pthread_t t;
    EXPECT(pthread_create(&t, NULL, set_flag, &flag) == 0);
    while (!__atomic_load_n(&flag, __ATOMIC_RELAXED))
        spin(100);
    EXPECT(pthread_join(t, NULL) == 0);
}

/* A thread that allocates and computes until the flag is set, and returns it. */
static inline void *burn(void *stop) {
    while (!__atomic_load_n((int *)stop, __ATOMIC_RELAXED)) {
        free(malloc(100));
        spin(100);
    }
    return stop;
}

#endif
