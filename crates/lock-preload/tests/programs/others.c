/* Read-write locks, spinlocks, barriers, once. */
#define _GNU_SOURCE
#include "objects.h"

static int timed_read(pthread_rwlock_t *l) { return pthread_rwlock_timedrdlock(l, soon(CLOCK_REALTIME)); }
static int timed_write(pthread_rwlock_t *l) { return pthread_rwlock_timedwrlock(l, soon(CLOCK_REALTIME)); }
static int clock_read(pthread_rwlock_t *l) { return pthread_rwlock_clockrdlock(l, CLOCK_MONOTONIC, &PAST); }
static int clock_write(pthread_rwlock_t *l) { return pthread_rwlock_clockwrlock(l, CLOCK_MONOTONIC, &BEFORE); }
static int nonsense_read(pthread_rwlock_t *l) { return pthread_rwlock_timedrdlock(l, &NONSENSE); }
static int nonsense_write(pthread_rwlock_t *l) { return pthread_rwlock_timedwrlock(l, &NEGATIVE); }
static int cpu_read(pthread_rwlock_t *l) { return pthread_rwlock_clockrdlock(l, CLOCK_PROCESS_CPUTIME_ID, &PAST); }
static int cpu_write(pthread_rwlock_t *l) { return pthread_rwlock_clockwrlock(l, CLOCK_PROCESS_CPUTIME_ID, &PAST); }
static int read_and_unlock(pthread_rwlock_t *l)
{
    int r = pthread_rwlock_tryrdlock(l);
    return r ? r : pthread_rwlock_unlock(l);
}

static void tries(const char *kind, pthread_rwlock_t *l)
{
    SHOW_AS(kind, ELSEWHERE(read_and_unlock, l));
    SHOW_AS(kind, ELSEWHERE(pthread_rwlock_trywrlock, l));
    SHOW_AS(kind, ELSEWHERE(timed_write, l));
    SHOW_AS(kind, ELSEWHERE(clock_write, l));
    SHOW_AS(kind, ELSEWHERE(nonsense_read, l));
    SHOW_AS(kind, ELSEWHERE(nonsense_write, l));
    SHOW_AS(kind, ELSEWHERE(cpu_read, l));
    SHOW_AS(kind, ELSEWHERE(cpu_write, l));
}

static void *write_soon(void *l)
{
    struct timespec t = in_ms(CLOCK_REALTIME, 200);
    return (void *)(long)pthread_rwlock_timedwrlock(l, &t);
}

static void *read_soon(void *l)
{
    struct timespec t = in_ms(CLOCK_REALTIME, 60000);
    long r = pthread_rwlock_timedrdlock(l, &t);
    return (void *)(r ? r : pthread_rwlock_unlock(l));
}

static void rwlock(const char *kind, pthread_rwlock_t *l, int writers_first)
{
    SHOW_AS(kind, nonsense_read(l));
    SHOW_AS(kind, cpu_write(l));
    SHOW_AS(kind, pthread_rwlock_rdlock(l));
    SHOW_AS(kind, pthread_rwlock_rdlock(l));
    SHOW_AS(kind, pthread_rwlock_trywrlock(l));
    SHOW_AS(kind, timed_write(l));
    tries(kind, l);
    SHOW_AS(kind, pthread_rwlock_unlock(l));
    /* A writer that waits, and gives up, with a reader behind it. */
    pthread_t writer, reader;
    void *result;
    DO(pthread_create(&writer, 0, write_soon, l));
    nap(50);
    SHOW_AS(kind, ELSEWHERE(read_and_unlock, l));
    DO(pthread_create(&reader, 0, read_soon, l));
    DO(pthread_join(writer, &result));
    SHOW_AS(kind, (int)(long)result);
    DO(pthread_join(reader, &result));
    SHOW_AS(kind, (int)(long)result);
    SHOW_AS(kind, ELSEWHERE(read_and_unlock, l));
    (void)writers_first;
    SHOW_AS(kind, pthread_rwlock_unlock(l));
    SHOW_AS(kind, pthread_rwlock_wrlock(l));
    SHOW_AS(kind, pthread_rwlock_wrlock(l));
    SHOW_AS(kind, pthread_rwlock_rdlock(l));
    SHOW_AS(kind, pthread_rwlock_tryrdlock(l));
    SHOW_AS(kind, pthread_rwlock_trywrlock(l));
    SHOW_AS(kind, timed_read(l));
    SHOW_AS(kind, timed_write(l));
    SHOW_AS(kind, ELSEWHERE(timed_read, l));
    SHOW_AS(kind, ELSEWHERE(clock_read, l));
    tries(kind, l);
    SHOW_AS(kind, pthread_rwlock_unlock(l));
    SHOW_AS(kind, clock_read(l));
    SHOW_AS(kind, pthread_rwlock_unlock(l));
    SHOW_AS(kind, clock_write(l));
    SHOW_AS(kind, pthread_rwlock_unlock(l));
    SHOW_AS(kind, pthread_rwlock_destroy(l));
}

static void rwlocks(void)
{
    pthread_rwlock_t initial = PTHREAD_RWLOCK_INITIALIZER,
                     writers = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP, l;
    rwlock("static", &initial, 0);
    rwlock("static writers first", &writers, 1);
    pthread_rwlockattr_t a;
    DO(pthread_rwlockattr_init(&a));
    for (int kind = 0; kind < 3; kind++) {
        for (int shared = 0; shared < 2; shared++) {
            char name[40];
            snprintf(name, sizeof name, "kind %d%s", kind, shared ? " shared" : "");
            DO(pthread_rwlockattr_setkind_np(&a, kind));
            DO(pthread_rwlockattr_setpshared(&a, shared));
            DO(pthread_rwlock_init(&l, &a));
            rwlock(name, &l, kind == 2);
        }
    }
}

/* Two readers are inside together, or this does not end. */
static pthread_rwlock_t both = PTHREAD_RWLOCK_INITIALIZER;
static atomic_int inside;

static int meet(void *unused)
{
    (void)unused;
    DO(pthread_rwlock_rdlock(&both));
    inside++;
    while (inside < 2)
        sched_yield();
    return pthread_rwlock_unlock(&both);
}

static void *meet_there(void *unused) { return (void *)(long)meet(unused); }

static void readers_share(void)
{
    pthread_t t;
    void *result;
    DO(pthread_create(&t, 0, meet_there, 0));
    SHOW(meet(0));
    DO(pthread_join(t, &result));
    SAY("readers inside together", inside);
}

/* Many sleep behind one holder, and each is woken by the one before. */
static pthread_rwlock_t wanted = PTHREAD_RWLOCK_INITIALIZER;
static long taken;

static void *take_it(void *unused)
{
    (void)unused;
    DO(pthread_rwlock_wrlock(&wanted));
    taken++;
    DO(pthread_rwlock_unlock(&wanted));
    return 0;
}

static void writers_wake_each_other(void)
{
    pthread_t t[8];
    DO(pthread_rwlock_wrlock(&wanted));
    for (int i = 0; i < 8; i++)
        DO(pthread_create(&t[i], 0, take_it, 0));
    nap(50);
    SHOW(pthread_rwlock_unlock(&wanted));
    for (int i = 0; i < 8; i++) {
        struct timespec until = in_ms(CLOCK_REALTIME, 10000);
        DO(pthread_timedjoin_np(t[i], 0, &until));
    }
    SAY("writers that were woken", taken);
}

static int try_spin(pthread_spinlock_t *s) { return pthread_spin_trylock(s); }

static void spinlocks(void)
{
    for (int shared = 0; shared < 2; shared++) {
        pthread_spinlock_t s;
        SHOW(pthread_spin_init(&s, shared));
        SHOW(pthread_spin_lock(&s));
        SHOW(pthread_spin_trylock(&s));
        SHOW(ELSEWHERE(try_spin, (void *)&s));
        SHOW(pthread_spin_unlock(&s));
        SHOW(pthread_spin_trylock(&s));
        SHOW(pthread_spin_unlock(&s));
        SHOW(pthread_spin_destroy(&s));
    }
}

static pthread_barrier_t barrier;
static atomic_int serial, rounds, wrong;
enum { ROUNDS = 300 };

static void *go_round(void *n)
{
    for (int i = 0; i < ROUNDS; i++) {
        if (rounds / (long)n != i)
            wrong++;
        int r = pthread_barrier_wait(&barrier);
        if (r == PTHREAD_BARRIER_SERIAL_THREAD)
            serial++;
        else if (r)
            wrong++;
        rounds++;
        r = pthread_barrier_wait(&barrier);
        if (r == PTHREAD_BARRIER_SERIAL_THREAD)
            serial++;
    }
    return 0;
}

static void *once_through(void *b) { return (void *)(long)pthread_barrier_wait(b); }

static void barriers(void)
{
    pthread_barrierattr_t a;
    DO(pthread_barrierattr_init(&a));
    SHOW(pthread_barrier_init(&barrier, 0, 0));
    for (int shared = 0; shared < 2; shared++) {
        DO(pthread_barrierattr_setpshared(&a, shared));
        for (long n = 1; n <= 8; n *= 2) {
            pthread_t t[8];
            serial = rounds = wrong = 0;
            SHOW(pthread_barrier_init(&barrier, &a, n));
            for (int i = 0; i < n; i++)
                DO(pthread_create(&t[i], 0, go_round, (void *)n));
            for (int i = 0; i < n; i++)
                DO(pthread_join(t[i], 0));
            SAY("serial threads", serial);
            SAY("rounds", rounds);
            SAY("out of step", n == 1 ? 0 : wrong);
            SHOW(pthread_barrier_destroy(&barrier));
        }
        /* Destroyed by one who has come out, while the other still is on its way; then its memory is gone. */
        for (int i = 0; i < 500; i++) {
            pthread_t t;
            pthread_barrier_t *b = mmap(0, sizeof *b, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            DO(pthread_barrier_init(b, &a, 2));
            DO(pthread_create(&t, 0, once_through, b));
            pthread_barrier_wait(b);
            DO(pthread_barrier_destroy(b));
            DO(munmap(b, sizeof *b));
            DO(pthread_join(t, 0));
        }
    }
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_int tries_of_once, inited;

static void init(void)
{
    if (tries_of_once++ == 0)
        for (;;)
            pause(); /* until cancelled */
    nap(5);
    inited++;
}

static void *once_here(void *unused)
{
    (void)unused;
    return (void *)(long)pthread_once(&once, init);
}

static once_flag flag = ONCE_FLAG_INIT;
static int called;
static void call(void) { called++; }

static void onces(void)
{
    pthread_t first, t[8];
    void *result;
    DO(pthread_create(&first, 0, once_here, 0));
    while (!tries_of_once)
        nap(1);
    for (int i = 0; i < 8; i++)
        DO(pthread_create(&t[i], 0, once_here, 0));
    nap(5);
    DO(pthread_cancel(first));
    DO(pthread_join(first, &result));
    SAY("cancelled in the initialiser", result == PTHREAD_CANCELED);
    for (int i = 0; i < 8; i++)
        DO(pthread_join(t[i], 0));
    SAY("tries", tries_of_once);
    SAY("initialised", inited);
    call_once(&flag, call);
    call_once(&flag, call);
    SAY("called", called);
}

/* A lock of two processes, held in turn. */
static void processes(void)
{
    struct {
        pthread_rwlock_t l;
        pthread_spinlock_t s;
        long plain[2];
    } *s = mmap(0, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_rwlockattr_t a;
    DO(pthread_rwlockattr_init(&a));
    DO(pthread_rwlockattr_setpshared(&a, 1));
    DO(pthread_rwlock_init(&s->l, &a));
    DO(pthread_spin_init(&s->s, 1));
    fflush(stdout);
    pid_t child = fork();
    for (int i = 0; i < 20000; i++) {
        DO(pthread_rwlock_wrlock(&s->l));
        s->plain[0]++;
        DO(pthread_rwlock_unlock(&s->l));
        DO(pthread_spin_lock(&s->s));
        s->plain[1]++;
        DO(pthread_spin_unlock(&s->s));
    }
    if (!child)
        _exit(0);
    DO(waitpid(child, 0, 0) != child);
    SAY("counted by two processes", s->plain[0]);
    SAY("counted by two processes", s->plain[1]);
}

int main(void)
{
    rwlocks();
    readers_share();
    writers_wake_each_other();
    spinlocks();
    barriers();
    onces();
    processes();
    return 0;
}
