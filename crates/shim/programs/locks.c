/* Every kind of lock of POSIX: exclusion, errors, timeouts. */
#define _GNU_SOURCE
#include "check.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 8, ROUNDS = 3000 };

static pthread_mutex_t normal = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_mutex_t checking = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
static pthread_mutex_t adaptive = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_rwlock_t rwlock_w = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
static pthread_spinlock_t spinlock;
static sem_t sem;
static pthread_barrier_t barrier;
static long counts[8], left, right;
static int serial;

static void each(void *(*f)(void *)) {
    pthread_t t[THREADS];
    for (long i = 0; i < THREADS; i++)
        EXPECT(pthread_create(&t[i], NULL, f, (void *)i) == 0);
    for (long i = 0; i < THREADS; i++) {
        void *r;
        EXPECT(pthread_join(t[i], &r) == 0 && r == (void *)(i * 3));
    }
}

static void bump(long *n) {
    long seen = *(volatile long *)n;
    spin(3);
    *(volatile long *)n = seen + 1;
}

static void *exclude(void *me) {
    pthread_mutex_t *all[] = {&normal, &recursive, &checking, &adaptive};
    for (int i = 0; i < ROUNDS; i++) {
        for (int k = 0; k < 4; k++) {
            EXPECT(pthread_mutex_lock(all[k]) == 0);
            if (k == 1)
                EXPECT(pthread_mutex_lock(all[k]) == 0);
            if (k == 2)
                EXPECT(pthread_mutex_lock(all[k]) == EDEADLK);
            bump(&counts[k]);
            EXPECT(pthread_mutex_unlock(all[k]) == 0);
            if (k == 1)
                EXPECT(pthread_mutex_unlock(all[k]) == 0);
            if (k == 1 || k == 2)
                EXPECT(pthread_mutex_unlock(all[k]) == EPERM);
        }
        EXPECT(pthread_spin_lock(&spinlock) == 0);
        bump(&counts[4]);
        EXPECT(pthread_spin_unlock(&spinlock) == 0);
        while (sem_wait(&sem) != 0)
            EXPECT(errno == EINTR);
        bump(&counts[5]);
        EXPECT(sem_post(&sem) == 0);
    }
    return (void *)((long)me * 3);
}

static void *read_write(void *me) {
    for (int i = 0; i < ROUNDS; i++) {
        pthread_rwlock_t *l = i % 3 ? &rwlock : &rwlock_w;
        if (i % 3 && i % 5 == 0) {
            EXPECT(pthread_rwlock_wrlock(l) == 0);
            bump(&left);
            bump(&right);
        } else {
            EXPECT(pthread_rwlock_rdlock(l) == 0);
            if (i % 3)
                EXPECT(left == right);
        }
        EXPECT(pthread_rwlock_unlock(l) == 0);
        if (i % 500 == 0) {
            int r = pthread_barrier_wait(&barrier);
            EXPECT(r == 0 || r == PTHREAD_BARRIER_SERIAL_THREAD);
            if (r)
                __atomic_fetch_add(&serial, 1, __ATOMIC_RELAXED);
        }
    }
    return (void *)((long)me * 3);
}

static void *busy(void *m) {
    struct timespec soon = in_ms(CLOCK_REALTIME, 5), soon_m = in_ms(CLOCK_MONOTONIC, 5), bad = {0, 1000000000};
    EXPECT(pthread_mutex_trylock(&normal) == EBUSY);
    EXPECT(pthread_mutex_timedlock(&normal, &soon) == ETIMEDOUT);
    EXPECT(pthread_mutex_clocklock(&normal, CLOCK_MONOTONIC, &soon_m) == ETIMEDOUT);
    EXPECT(pthread_mutex_timedlock(&normal, &bad) == EINVAL);
    EXPECT(pthread_mutex_unlock(&checking) == EPERM && pthread_mutex_trylock(&recursive) == EBUSY);
    EXPECT(pthread_rwlock_tryrdlock(&rwlock) == EBUSY && pthread_rwlock_trywrlock(&rwlock) == EBUSY);
    EXPECT(pthread_rwlock_timedrdlock(&rwlock, &soon) == ETIMEDOUT);
    EXPECT(pthread_rwlock_timedwrlock(&rwlock, &soon) == ETIMEDOUT);
    EXPECT(pthread_spin_trylock(&spinlock) == EBUSY);
    EXPECT(sem_trywait(&sem) == -1 && errno == EAGAIN);
    EXPECT(sem_timedwait(&sem, &soon) == -1 && errno == ETIMEDOUT);
    return m;
}

static void timeouts(void) {
    pthread_t t;
    int value;
    EXPECT(pthread_mutex_lock(&normal) == 0 && pthread_mutex_lock(&checking) == 0 && pthread_mutex_lock(&recursive) == 0);
    EXPECT(pthread_rwlock_wrlock(&rwlock) == 0 && pthread_rwlock_rdlock(&rwlock) == EDEADLK);
    EXPECT(pthread_spin_lock(&spinlock) == 0 && sem_wait(&sem) == 0 && sem_getvalue(&sem, &value) == 0 && value == 0);
    EXPECT(pthread_create(&t, NULL, busy, NULL) == 0 && pthread_join(t, NULL) == 0);
    EXPECT(pthread_mutex_unlock(&normal) == 0 && pthread_mutex_unlock(&checking) == 0 &&
           pthread_mutex_unlock(&recursive) == 0);
    EXPECT(pthread_rwlock_unlock(&rwlock) == 0 && pthread_spin_unlock(&spinlock) == 0 && sem_post(&sem) == 0);
}

static pthread_mutex_t robust;
static void *die_holding(void *m) {
    EXPECT(pthread_mutex_lock(&robust) == 0);
    return m;
}

static void robust_mutexes(void) {
    pthread_mutexattr_t a;
    pthread_t t;
    EXPECT(pthread_mutexattr_init(&a) == 0 && pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST) == 0);
    EXPECT(pthread_mutex_init(&robust, &a) == 0);
    EXPECT(pthread_create(&t, NULL, die_holding, NULL) == 0 && pthread_join(t, NULL) == 0);
    EXPECT(pthread_mutex_lock(&robust) == EOWNERDEAD);
    EXPECT(pthread_mutex_consistent(&robust) == 0 && pthread_mutex_unlock(&robust) == 0);
    EXPECT(pthread_mutex_lock(&robust) == 0 && pthread_mutex_unlock(&robust) == 0);
    EXPECT(pthread_create(&t, NULL, die_holding, NULL) == 0 && pthread_join(t, NULL) == 0);
    EXPECT(pthread_mutex_lock(&robust) == EOWNERDEAD && pthread_mutex_unlock(&robust) == 0);
    EXPECT(pthread_mutex_lock(&robust) == ENOTRECOVERABLE);
    EXPECT(pthread_mutex_destroy(&robust) == 0);
}

struct shared {
    pthread_mutex_t m;
    sem_t s;
    long n;
};

static void *count_shared(void *p) {
    struct shared *s = p;
    for (int i = 0; i < 2000; i++) {
        EXPECT(pthread_mutex_lock(&s->m) == 0);
        bump(&s->n);
        EXPECT(pthread_mutex_unlock(&s->m) == 0);
    }
    EXPECT(sem_post(&s->s) == 0);
    return NULL;
}

static void process_shared(void) {
    struct shared *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t a;
    EXPECT(s != MAP_FAILED && pthread_mutexattr_init(&a) == 0);
    EXPECT(pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED) == 0 && pthread_mutex_init(&s->m, &a) == 0);
    EXPECT(sem_init(&s->s, 1, 0) == 0);
    pid_t child = fork();
    if (child == 0) {
        count_shared(s);
        _exit(0);
    }
    pthread_t t[2];
    for (int i = 0; i < 2; i++)
        EXPECT(pthread_create(&t[i], NULL, count_shared, s) == 0);
    for (int i = 0; i < 2; i++)
        EXPECT(pthread_join(t[i], NULL) == 0);
    int status;
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
    for (int i = 0; i < 3; i++)
        EXPECT(sem_wait(&s->s) == 0);
    EXPECT(s->n == 6000);
}

int main(void) {
    EXPECT(pthread_spin_init(&spinlock, PTHREAD_PROCESS_PRIVATE) == 0 && sem_init(&sem, 0, 1) == 0);
    EXPECT(pthread_barrier_init(&barrier, NULL, THREADS) == 0);
    timeouts();
    each(exclude);
    for (int k = 0; k < 6; k++)
        EXPECT(counts[k] == (long)THREADS * ROUNDS);
    each(read_write);
    EXPECT(left == right && serial == ROUNDS / 500);
    EXPECT(pthread_barrier_destroy(&barrier) == 0 && pthread_mutex_destroy(&normal) == 0);
    robust_mutexes();
    process_shared();
    puts("locks: ok");
    return 0;
}
