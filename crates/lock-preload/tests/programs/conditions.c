/* Condition variables: results, order, cancellation, tokens that are neither lost nor stolen. */
#define _GNU_SOURCE
#include "objects.h"
#include <signal.h>

static pthread_mutex_t m = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
static int waiting, tokens, cleaned;
static atomic_int done;

static void results(void)
{
    struct timespec t;
    SHOW(pthread_cond_signal(&c));
    SHOW(pthread_cond_broadcast(&c));
    /* Without the mutex. */
    SHOW(pthread_cond_wait(&c, &m));
    SHOW(pthread_cond_timedwait(&c, &m, &PAST));
    DO(pthread_mutex_lock(&m));
    SHOW(pthread_cond_timedwait(&c, &m, &PAST));
    SHOW(pthread_cond_timedwait(&c, &m, &BEFORE));
    SHOW(pthread_cond_timedwait(&c, &m, &NONSENSE));
    SHOW(pthread_cond_timedwait(&c, &m, &NEGATIVE));
    t = in_ms(CLOCK_REALTIME, 5);
    SHOW(pthread_cond_timedwait(&c, &m, &t));
    t = in_ms(CLOCK_MONOTONIC, 5);
    SHOW(pthread_cond_clockwait(&c, &m, CLOCK_MONOTONIC, &t));
    SHOW(pthread_cond_clockwait(&c, &m, CLOCK_PROCESS_CPUTIME_ID, &t));
    SHOW(pthread_mutex_unlock(&m));
    pthread_condattr_t a;
    pthread_cond_t monotonic;
    DO(pthread_condattr_init(&a));
    SHOW(pthread_condattr_setclock(&a, CLOCK_PROCESS_CPUTIME_ID));
    SHOW(pthread_condattr_setclock(&a, CLOCK_MONOTONIC));
    SHOW(pthread_cond_init(&monotonic, &a));
    DO(pthread_mutex_lock(&m));
    t = in_ms(CLOCK_MONOTONIC, 20);
    SHOW(pthread_cond_timedwait(&monotonic, &m, &t));
    struct timespec now = in_ms(CLOCK_MONOTONIC, 0);
    SAY("not before its time", now.tv_sec > t.tv_sec || (now.tv_sec == t.tv_sec && now.tv_nsec >= t.tv_nsec));
    SHOW(pthread_mutex_unlock(&m));
    SHOW(pthread_cond_destroy(&monotonic));
}

static void *wait_for_token(void *unused)
{
    (void)unused;
    DO(pthread_mutex_lock(&m));
    waiting++;
    while (!tokens)
        DO(pthread_cond_wait(&c, &m));
    tokens--;
    waiting--;
    DO(pthread_mutex_unlock(&m));
    done++;
    return 0;
}

static void until_waiting(int n)
{
    for (int is = 0; is != n; nap(1)) {
        DO(pthread_mutex_lock(&m));
        is = waiting;
        DO(pthread_mutex_unlock(&m));
    }
}

/* A token for each of N waiters, and each wakes one; then one call wakes all. */
static void wakes(void)
{
    enum { N = 20 };
    pthread_t t[N];
    for (int all = 0; all < 2; all++) {
        done = 0;
        for (int i = 0; i < N; i++)
            DO(pthread_create(&t[i], 0, wait_for_token, 0));
        until_waiting(N);
        DO(pthread_mutex_lock(&m));
        tokens = N;
        DO(pthread_mutex_unlock(&m));
        for (int i = 0; !all && i < N; i++)
            DO(pthread_cond_signal(&c));
        if (all)
            DO(pthread_cond_broadcast(&c));
        for (int i = 0; i < N; i++)
            DO(pthread_join(t[i], 0));
        SAY("woken", done);
    }
}

static void is_held(void *unused)
{
    (void)unused;
    /* Held again, by this thread, or these fail. */
    cleaned += pthread_mutex_trylock(&m) == EBUSY && pthread_mutex_unlock(&m) == 0;
}

static void *wait_and_clean(void *unused)
{
    (void)unused;
    DO(pthread_mutex_lock(&m));
    waiting++;
    pthread_cleanup_push(is_held, 0);
    while (!tokens)
        pthread_cond_wait(&c, &m);
    pthread_cleanup_pop(0);
    tokens--;
    DO(pthread_mutex_unlock(&m));
    return 0;
}

static void *cancelled_before(void *unused)
{
    pthread_cancel(pthread_self());
    return wait_and_clean(unused);
}

static void *not_cancellable(void *unused)
{
    DO(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, 0));
    return wait_and_clean(unused);
}

static long end_of(pthread_t t)
{
    void *result;
    DO(pthread_join(t, &result));
    return result == PTHREAD_CANCELED;
}

static void cancellation(void)
{
    pthread_t t;
    waiting = tokens = 0;
    DO(pthread_create(&t, 0, wait_and_clean, 0));
    until_waiting(1);
    DO(pthread_cancel(t));
    SAY("cancelled in wait", end_of(t));
    SAY("with the mutex held", cleaned);
    SHOW(pthread_mutex_trylock(&m));
    SHOW(pthread_mutex_unlock(&m));
    DO(pthread_create(&t, 0, cancelled_before, 0));
    SAY("cancelled before wait", end_of(t));
    SAY("with the mutex held", cleaned);
    waiting = 0;
    DO(pthread_create(&t, 0, not_cancellable, 0));
    until_waiting(1);
    DO(pthread_cancel(t));
    DO(pthread_mutex_lock(&m));
    tokens = 1;
    DO(pthread_mutex_unlock(&m));
    SHOW(pthread_cond_signal(&c));
    SAY("cancelled though it was disabled", end_of(t));
    /* The signal must reach the second one whoever it was meant for: one of them is cancelled. */
    long right = 0;
    for (int i = 0; i < 200; i++) {
        pthread_t one, two;
        waiting = tokens = 0;
        DO(pthread_create(&one, 0, wait_and_clean, 0));
        until_waiting(1);
        DO(pthread_create(&two, 0, wait_and_clean, 0));
        until_waiting(2);
        DO(pthread_mutex_lock(&m));
        tokens = 1;
        DO(pthread_mutex_unlock(&m));
        if (i % 2) {
            DO(pthread_cond_signal(&c));
            DO(pthread_cancel(one));
        } else {
            DO(pthread_cancel(one));
            DO(pthread_cond_signal(&c));
        }
        if (end_of(one)) {
            right += !end_of(two);
        } else {
            DO(pthread_cancel(two));
            right += end_of(two);
        }
    }
    SAY("no signal went to the cancelled thread", right);
}

static void nothing(int unused) { (void)unused; }

static void signals(void)
{
    pthread_t t;
    struct sigaction action = {.sa_handler = nothing};
    DO(sigaction(SIGUSR1, &action, 0));
    waiting = tokens = done = 0;
    DO(pthread_create(&t, 0, wait_for_token, 0));
    until_waiting(1);
    for (int i = 0; i < 10; i++) {
        DO(pthread_kill(t, SIGUSR1));
        nap(1);
    }
    SAY("ended by signals", done);
    DO(pthread_mutex_lock(&m));
    tokens = 1;
    DO(pthread_mutex_unlock(&m));
    DO(pthread_cond_signal(&c));
    DO(pthread_join(t, 0));
    SAY("ended by a token", done);
}

static pthread_cond_t *own;
static int go;

static void *wait_for_go(void *unused)
{
    (void)unused;
    DO(pthread_mutex_lock(&m));
    waiting++;
    while (!go)
        DO(pthread_cond_wait(own, &m));
    DO(pthread_mutex_unlock(&m));
    return 0;
}

/* POSIX: after a broadcast that frees all waiters it may be destroyed at once. */
static void destruction(void)
{
    for (int round = 0; round < 50; round++) {
        pthread_t t[4];
        own = malloc(sizeof *own);
        DO(pthread_cond_init(own, 0));
        go = waiting = 0;
        for (int i = 0; i < 4; i++)
            DO(pthread_create(&t[i], 0, wait_for_go, 0));
        until_waiting(4);
        DO(pthread_mutex_lock(&m));
        go = 1;
        DO(pthread_cond_broadcast(own));
        DO(pthread_mutex_unlock(&m));
        DO(pthread_cond_destroy(own));
        memset(own, 0xff, sizeof *own);
        free(own);
        for (int i = 0; i < 4; i++)
            DO(pthread_join(t[i], 0));
    }
    SAY("destroyed after broadcast", 50);
}

static struct timespec deadline;

static long microseconds(const struct timespec *at, const struct timespec *since)
{
    return (at->tv_sec - since->tv_sec) * 1000000 + (at->tv_nsec - since->tv_nsec) / 1000;
}

static void *wait_until_deadline(void *unused)
{
    (void)unused;
    DO(pthread_mutex_lock(&m));
    waiting++;
    while (!go) {
        int result = pthread_cond_timedwait(own, &m, &deadline);
        if (result == ETIMEDOUT)
            break;
        DO(result);
    }
    DO(pthread_mutex_unlock(&m));
    return 0;
}

/* The same while the waiter's time is up: between the end of its sleep and its return it is not woken by the broadcast,
 * and the condition variable is gone. Nobody writes to its memory any more. */
static void destruction_at_the_deadline(void)
{
    pthread_cond_t gone;
    memset(&gone, 0xff, sizeof gone);
    own = malloc(sizeof *own);
    long touched = 0;
    for (int round = 0; round < 600; round++) {
        pthread_t t;
        DO(pthread_cond_init(own, 0));
        go = waiting = 0;
        deadline = in_ms(CLOCK_REALTIME, 2);
        DO(pthread_create(&t, 0, wait_until_deadline, 0));
        until_waiting(1);
        /* It wakes some microseconds late, and not always as many. */
        struct timespec now;
        do
            now = in_ms(CLOCK_REALTIME, 0);
        while (microseconds(&now, &deadline) < round % 120);
        DO(pthread_mutex_lock(&m));
        go = 1;
        DO(pthread_cond_broadcast(own));
        DO(pthread_mutex_unlock(&m));
        DO(pthread_cond_destroy(own));
        memcpy(own, &gone, sizeof gone);
        struct timespec long_after = in_ms(CLOCK_REALTIME, 10000);
        DO(pthread_timedjoin_np(t, 0, &long_after));
        touched += memcmp(own, &gone, sizeof gone) != 0;
    }
    SAY("touched after its end", touched);
    free(own);
}

static void processes(void)
{
    struct {
        pthread_mutex_t m;
        pthread_cond_t c;
        int turn;
    } *s = mmap(0, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t ma;
    pthread_condattr_t ca;
    DO(pthread_mutexattr_init(&ma));
    DO(pthread_mutexattr_setpshared(&ma, PTHREAD_PROCESS_SHARED));
    DO(pthread_mutex_init(&s->m, &ma));
    DO(pthread_condattr_init(&ca));
    DO(pthread_condattr_setpshared(&ca, PTHREAD_PROCESS_SHARED));
    DO(pthread_cond_init(&s->c, &ca));
    fflush(stdout);
    pid_t child = fork();
    for (int i = 0; i < 100; i++) {
        DO(pthread_mutex_lock(&s->m));
        while (s->turn % 2 != (child == 0))
            DO(pthread_cond_wait(&s->c, &s->m));
        s->turn++;
        DO(pthread_cond_signal(&s->c));
        DO(pthread_mutex_unlock(&s->m));
    }
    if (!child)
        _exit(0);
    DO(waitpid(child, 0, 0) != child);
    SAY("turns of two processes", s->turn);
    SHOW(pthread_cond_destroy(&s->c));
    /* A shared condition with a mutex of one process, and the other way round. */
    struct timespec t = in_ms(CLOCK_REALTIME, 5);
    DO(pthread_mutex_lock(&m));
    SHOW(pthread_cond_init(&s->c, &ca));
    SHOW(pthread_cond_timedwait(&s->c, &m, &t));
    SHOW(pthread_mutex_unlock(&m));
    DO(pthread_mutex_lock(&s->m));
    t = in_ms(CLOCK_REALTIME, 5);
    SHOW(pthread_cond_timedwait(&c, &s->m, &t));
    SHOW(pthread_mutex_unlock(&s->m));
}

static mtx_t c11_mutex;
static cnd_t c11_cond;
static int c11_turn;

static int c11_other(void *unused)
{
    (void)unused;
    mtx_lock(&c11_mutex);
    while (!c11_turn)
        cnd_wait(&c11_cond, &c11_mutex);
    c11_turn = 2;
    mtx_unlock(&c11_mutex);
    return cnd_broadcast(&c11_cond);
}

static void c11(void)
{
    thrd_t t;
    mtx_init(&c11_mutex, mtx_plain);
    SAY("cnd_init", cnd_init(&c11_cond));
    thrd_create(&t, c11_other, 0);
    mtx_lock(&c11_mutex);
    c11_turn = 1;
    SAY("cnd_signal", cnd_signal(&c11_cond));
    while (c11_turn != 2)
        cnd_wait(&c11_cond, &c11_mutex);
    SAY("cnd_timedwait", cnd_timedwait(&c11_cond, &c11_mutex, &PAST));
    mtx_unlock(&c11_mutex);
    int result;
    thrd_join(t, &result);
    SAY("cnd_broadcast", result);
    cnd_destroy(&c11_cond);
}

int main(void)
{
    results();
    wakes();
    cancellation();
    signals();
    destruction();
    destruction_at_the_deadline();
    processes();
    c11();
    return 0;
}
