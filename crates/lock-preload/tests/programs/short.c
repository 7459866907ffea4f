/* 10,000 threads, at most 8 at a time: each waits for locks, and for its turn. */
#define _GNU_SOURCE
#include "show.h"

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
static long count, turn;

static void *one(void *mine)
{
    DO(pthread_mutex_lock(&m));
    while (turn != (long)mine)
        DO(pthread_cond_wait(&c, &m));
    turn = (turn + 1) % 8;
    count++;
    DO(pthread_cond_broadcast(&c));
    DO(pthread_mutex_unlock(&m));
    return 0;
}

int main(void)
{
    pthread_t t[8];
    for (int i = 0; i < 10000 / 8; i++) {
        for (long k = 0; k < 8; k++)
            DO(pthread_create(&t[k], 0, one, (void *)k));
        for (int k = 0; k < 8; k++)
            DO(pthread_join(t[k], 0));
    }
    printf("%ld\n", count);
    return 0;
}
