/* Threads that others interrupt, while they compute and while they wait: pthread_kill, cancellation at any instruction. */
#define _GNU_SOURCE
#include "check.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <unistd.h>

enum { THREADS = 3 };

static __thread volatile int hits;
static __thread pthread_t self;
static int cleaned;
static volatile int strangers;
static int started, stop, rounds = 20;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static sem_t sem;
static int ends[2];

static void note(int n) {
    if (n != SIGUSR1 || !pthread_equal(self, pthread_self()))
        strangers = 1;
    hits++;
}

static void begin(void) {
    self = pthread_self();
    __atomic_fetch_add(&started, 1, __ATOMIC_RELEASE);
}

static void await_started(int n) {
    while (__atomic_load_n(&started, __ATOMIC_ACQUIRE) < n)
        usleep(500);
    started = 0;
}

/* Computes, and calls nothing, until it has been hit. */
static void *until_hit(void *p) {
    long sum = (long)p;
    begin();
    while (!hits)
        for (int i = 0; i < 1000; i++)
            sum += i ^ sum;
    EXPECT(hits == 1);
    return (void *)(sum | 1);
}

static void kill_those_who_compute(void) {
    pthread_t t[THREADS];
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < THREADS; i++)
            EXPECT(pthread_create(&t[i], NULL, until_hit, NULL) == 0);
        await_started(THREADS);
        for (int i = 0; i < THREADS; i++)
            EXPECT(pthread_kill(t[i], SIGUSR1) == 0);
        for (int i = 0; i < THREADS; i++)
            EXPECT(pthread_join(t[i], NULL) == 0);
    }
}

static void *in_cond(void *p) {
    EXPECT(pthread_mutex_lock(&mutex) == 0);
    begin();
    /* A wait may end for no reason. */
    while (!hits)
        EXPECT(pthread_cond_wait(&cond, &mutex) == 0 || hits);
    EXPECT(pthread_mutex_unlock(&mutex) == 0);
    return p;
}

static void *in_sem(void *p) {
    begin();
    while (!hits)
        EXPECT(sem_wait(&sem) == -1 && errno == EINTR);
    return p;
}

static void *in_read(void *p) {
    char c;
    begin();
    while (!hits)
        EXPECT(read(ends[0], &c, 1) == -1 && errno == EINTR);
    return p;
}

static void *in_sleep(void *p) {
    begin();
    while (!hits)
        EXPECT(sleep(60) > 0);
    return p;
}

static void kill_those_who_wait(void) {
    static void *(*const all[])(void *) = {in_sem, in_read, in_sleep, in_cond};
    for (int round = 0; round < rounds; round++) {
        for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
            pthread_t t;
            EXPECT(pthread_create(&t, NULL, all[i], NULL) == 0);
            await_started(1);
            /* One that comes before the call has begun does not interrupt it. */
            do {
                EXPECT(pthread_kill(t, SIGUSR1) == 0);
                usleep(2000);
                if (all[i] == in_cond)
                    EXPECT(pthread_cond_broadcast(&cond) == 0);
            } while (pthread_tryjoin_np(t, NULL) == EBUSY);
        }
    }
}

static void clean(void *p) {
    __atomic_fetch_add(&cleaned, *(int *)p, __ATOMIC_RELAXED);
}

static void *compute(void *p) {
    int one = 1;
    EXPECT(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL) == 0);
    pthread_cleanup_push(clean, &one);
    begin();
    for (volatile long i = 0; !__atomic_load_n(&stop, __ATOMIC_RELAXED); i = i + 1) {
    }
    pthread_cleanup_pop(0);
    return p;
}

/* Not while it is disabled; then at once. */
static void *compute_disabled(void *p) {
    int one = 1;
    EXPECT(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL) == 0);
    EXPECT(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL) == 0);
    begin();
    while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE))
        spin(100);
    pthread_cleanup_push(clean, &one);
    EXPECT(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL) == 0);
    abort();
    pthread_cleanup_pop(0);
    return p;
}

static void cancel_those_who_compute(void) {
    pthread_t t[THREADS];
    void *result;
    for (int round = 0; round < rounds; round++) {
        int disabled = round % 4 == 3;
        cleaned = stop = 0;
        for (int i = 0; i < THREADS; i++)
            EXPECT(pthread_create(&t[i], NULL, disabled ? compute_disabled : compute, NULL) == 0);
        await_started(THREADS);
        for (int i = 0; i < THREADS; i++)
            EXPECT(pthread_cancel(t[i]) == 0);
        if (disabled) {
            usleep(1000);
            EXPECT(cleaned == 0);
            __atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
        }
        for (int i = 0; i < THREADS; i++)
            EXPECT(pthread_join(t[i], &result) == 0 && result == PTHREAD_CANCELED);
        EXPECT(cleaned == THREADS);
    }
}

int main(int argc, char **argv) {
    struct sigaction a = {.sa_handler = note};
    /* Without preemption every turn is a long one. */
    if (argc > 1 && atoi(argv[1]) == 0)
        rounds = 2;
    EXPECT(sem_init(&sem, 0, 0) == 0 && pipe(ends) == 0 && sigaction(SIGUSR1, &a, NULL) == 0);
    kill_those_who_compute();
    kill_those_who_wait();
    cancel_those_who_compute();
    EXPECT(!strangers);
    puts("targets: ok");
    return 0;
}
