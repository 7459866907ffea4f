/* Threads of C that contend for locks, one of which is in a structure of zeros. */
#include "quaver_lock.h"

#include <pthread.h>
#include <stdio.h>

enum { THREADS = 6, ROUNDS = 20000 };

static struct {
    quaver_lock_t lock;
    long count;
} zeroed;

static void *add(void *unused) {
    for (int i = 0; i < ROUNDS; i++) {
        if (i % 16 == 0)
            while (!quaver_lock_timedlock(&zeroed.lock, 100000)) {}
        else if (i % 16 == 1)
            while (!quaver_lock_trylock(&zeroed.lock)) {}
        else
            quaver_lock_lock(&zeroed.lock);
        zeroed.count++;
        quaver_lock_unlock(&zeroed.lock);
    }
    return unused;
}

int main(void) {
    quaver_lock_t other = QUAVER_LOCK_INIT;
    pthread_t threads[THREADS];
    char why[512] = "", little[4] = "abc";

    if (sizeof other != 8)
        return 1;
    if (quaver_lock_attach(why, sizeof why) == QUAVER_LOCK_NONE) {
        if (quaver_lock_attach(little, sizeof little) != QUAVER_LOCK_NONE || little[0] != why[0] || little[3] != 0)
            return 2;
        if (quaver_lock_attach(NULL, 0) != QUAVER_LOCK_NONE)
            return 3;
    }
    quaver_lock_lock(&other);
    if (quaver_lock_trylock(&other) || quaver_lock_timedlock(&other, 1000000))
        return 4;
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, add, NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    quaver_lock_unlock(&other);
    printf("%ld %s\n", zeroed.count, why);
    return zeroed.count == (long)THREADS * ROUNDS ? 0 : 5;
}
