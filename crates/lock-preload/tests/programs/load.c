/* All objects under load, with so many threads for so many rounds: the counts must be exact. load THREADS ROUNDS; with
 * ROUNDS 0 for ever, and a dot now and then. */
#define _GNU_SOURCE
#include "show.h"
#include <dlfcn.h>
#include <stdatomic.h>

enum { MUTEXES = 5, RWLOCKS = 3, PLACES = 4 };

static pthread_mutex_t mutexes[MUTEXES] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP,
                                           PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP,
                                           PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP};
static pthread_rwlock_t rwlocks[RWLOCKS];
static pthread_spinlock_t spinlock;
static pthread_barrier_t barrier;
/* Two words each that change together. */
static struct pair {
    volatile long a, b;
} by_mutex[MUTEXES], by_rwlock[RWLOCKS], by_spinlock;
static atomic_long torn;

/* A queue of bounded length between all threads. */
static pthread_mutex_t queue = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER, emptied = PTHREAD_COND_INITIALIZER;
static long length, sum_in, sum_out;

static void change(struct pair *p)
{
    torn += p->a != p->b;
    p->a++;
    p->b++;
}

static void lock_somehow(pthread_mutex_t *m, long round)
{
    struct timespec t;
    switch (round % 8) {
    case 0:
        while (pthread_mutex_trylock(m))
            sched_yield();
        return;
    case 1:
        do
            t = in_ms(CLOCK_REALTIME, 1);
        while (pthread_mutex_timedlock(m, &t));
        return;
    case 2:
        do
            t = in_ms(CLOCK_MONOTONIC, 1);
        while (pthread_mutex_clocklock(m, CLOCK_MONOTONIC, &t));
        return;
    default:
        DO(pthread_mutex_lock(m));
    }
}

static void one_round(long round)
{
    for (int i = 0; i < MUTEXES; i++) {
        lock_somehow(&mutexes[i], round);
        if (i == 1)
            lock_somehow(&mutexes[i], round + 3);
        change(&by_mutex[i]);
        if (i == 1)
            DO(pthread_mutex_unlock(&mutexes[i]));
        DO(pthread_mutex_unlock(&mutexes[i]));
    }
    for (int i = 0; i < RWLOCKS; i++) {
        struct timespec t;
        if (round % 4 == 0) {
            DO(pthread_rwlock_wrlock(&rwlocks[i]));
            change(&by_rwlock[i]);
        } else if (round % 4 == 1) {
            do
                t = in_ms(CLOCK_REALTIME, 1);
            while (pthread_rwlock_timedwrlock(&rwlocks[i], &t));
            change(&by_rwlock[i]);
        } else {
            do
                t = in_ms(CLOCK_REALTIME, 1);
            while (round % 4 == 2 ? pthread_rwlock_rdlock(&rwlocks[i]) : pthread_rwlock_timedrdlock(&rwlocks[i], &t));
            torn += by_rwlock[i].a != by_rwlock[i].b;
        }
        DO(pthread_rwlock_unlock(&rwlocks[i]));
    }
    DO(pthread_spin_lock(&spinlock));
    change(&by_spinlock);
    DO(pthread_spin_unlock(&spinlock));
    /* Put one in, take one out; whoever does either wakes those who wait for it. */
    DO(pthread_mutex_lock(&queue));
    while (length == PLACES)
        DO(pthread_cond_wait(&emptied, &queue));
    length++;
    sum_in++;
    DO(round % 2 ? pthread_cond_signal(&filled) : pthread_cond_broadcast(&filled));
    DO(pthread_mutex_unlock(&queue));
    DO(pthread_mutex_lock(&queue));
    while (!length) {
        struct timespec t = in_ms(CLOCK_REALTIME, 1000);
        pthread_cond_timedwait(&filled, &queue, &t);
    }
    length--;
    sum_out++;
    DO(pthread_cond_signal(&emptied));
    DO(pthread_mutex_unlock(&queue));
}

static void *work(void *rounds)
{
    for (long i = 0; i < (long)rounds; i++) {
        one_round(i);
        if (i % 16 == 0)
            pthread_barrier_wait(&barrier);
    }
    return 0;
}

static void *work_for_ever(void *unused)
{
    (void)unused;
    for (long i = 0;; i++) {
        one_round(i);
        if (i % 64 == 0 && write(1, ".", 1) != 1)
            _exit(0);
    }
}

int main(int argc, char **argv)
{
    long threads = argc > 1 ? atol(argv[1]) : 4, rounds = argc > 2 ? atol(argv[2]) : 1000;
    pthread_t t[64];
    pthread_rwlockattr_t a;
    DO(pthread_mutex_init(&mutexes[4], 0));
    DO(pthread_rwlockattr_init(&a));
    for (int i = 0; i < RWLOCKS; i++) {
        DO(pthread_rwlockattr_setkind_np(&a, i));
        DO(pthread_rwlock_init(&rwlocks[i], &a));
    }
    DO(pthread_spin_init(&spinlock, 0));
    DO(pthread_barrier_init(&barrier, 0, threads));
    Dl_info from;
    if (!dladdr(dlsym(RTLD_DEFAULT, "pthread_mutex_lock"), &from))
        return 1;
    const char *slash = strrchr(from.dli_fname, '/');
    printf("%s\n", slash ? slash + 1 : from.dli_fname);
    fflush(stdout);
    for (int i = 0; i < threads; i++)
        DO(pthread_create(&t[i], 0, rounds ? work : work_for_ever, (void *)rounds));
    for (int i = 0; i < threads; i++)
        DO(pthread_join(t[i], 0));
    for (int i = 0; i < MUTEXES; i++)
        printf("%ld %ld\n", by_mutex[i].a, by_mutex[i].b);
    for (int i = 0; i < RWLOCKS; i++)
        printf("%ld %ld\n", by_rwlock[i].a, by_rwlock[i].b);
    printf("%ld %ld\n%ld %ld\ntorn %ld\n", by_spinlock.a, by_spinlock.b, sum_in, sum_out, (long)torn);
    return 0;
}
