/* Threads: making, joining, detaching, cancelling, keys; processes. */
#include "fuzz.h"

#include <sys/wait.h>

#define T(i) (&threads[a[i]])
#define OWN_STACK (256 << 10)

/* create THREAD FLAGS: 1 detached, 2 a stack of 256 KiB, 4 on a stack of the program's */
static void create(const long *a, struct record *r) {
    pthread_attr_t t;
    pthread_attr_init(&t);
    if (a[1] & 1)
        pthread_attr_setdetachstate(&t, PTHREAD_CREATE_DETACHED);
    if (a[1] & 2)
        r->e |= pthread_attr_setstacksize(&t, OWN_STACK);
    if (a[1] & 4) {
        T(0)->stack = aligned_alloc(4096, OWN_STACK);
        r->e |= pthread_attr_setstack(&t, T(0)->stack, OWN_STACK);
    }
    r->r = pthread_create(&T(0)->id, &t, thread_main, T(0));
    pthread_attr_destroy(&t);
}

static void join(const long *a, struct record *r) {
    void *value = NULL;
    r->r = pthread_join(T(0)->id, &value);
    T(0)->joined |= !r->r;
    r->x = (long)value;
}

static void join_try(const long *a, struct record *r) {
    void *value = NULL;
    r->r = pthread_tryjoin_np(T(0)->id, &value);
    T(0)->joined |= !r->r;
}

static void join_timed(const long *a, struct record *r) {
    void *value = NULL;
    struct timespec t = in_ms(clock_of(a[2]), a[1]);
    r->r = a[2] ? pthread_clockjoin_np(T(0)->id, &value, CLOCK_MONOTONIC, &t)
                : pthread_timedjoin_np(T(0)->id, &value, &t);
    T(0)->joined |= !r->r;
    r->x = (long)value;
}

CALL(join_self, pthread_join(pthread_self(), NULL))
CALL(detach, pthread_detach(T(0)->id))
CALL(cancel, pthread_cancel(T(0)->id))
CALL(alive, pthread_kill(T(0)->id, 0))

static void leave(const long *a, struct record *r) {
    me->leaving = 1;
    atomic_store(&r->done, 1);
    pthread_exit((void *)a[0]);
}

/* cancel_state ENABLED: what it was. */
static void cancel_state(const long *a, struct record *r) {
    int old;
    r->r = pthread_setcancelstate(a[0] ? PTHREAD_CANCEL_ENABLE : PTHREAD_CANCEL_DISABLE, &old);
    r->x = old == PTHREAD_CANCEL_ENABLE;
}

static void cancel_type(const long *a, struct record *r) {
    int old;
    r->r = pthread_setcanceltype(a[0] ? PTHREAD_CANCEL_ASYNCHRONOUS : PTHREAD_CANCEL_DEFERRED, &old);
    r->x = old == PTHREAD_CANCEL_ASYNCHRONOUS;
}

static void test_cancel(const long *a, struct record *r) {
    (void)a;
    (void)r;
    pthread_testcancel();
}

/* compute_for_ever HOW: until it is cancelled; HOW 1: with pthread_testcancel. */
static void compute_for_ever(const long *a, struct record *r) {
    (void)r;
    for (volatile int i = 0; i < 2;) {
        if (a[0] || polite)
            pthread_testcancel();
        if (a[0] || polite)
            compute_a_while();
    }
}

/* attributes FLAGS: of the thread itself, made with these. */
static void attributes(const long *a, struct record *r) {
    pthread_attr_t t;
    void *low = NULL;
    size_t size = 0;
    int state = -1;
    char here;
    r->r = pthread_getattr_np(pthread_self(), &t);
    if (r->r)
        return;
    pthread_attr_getstack(&t, &low, &size);
    pthread_attr_getdetachstate(&t, &state);
    pthread_attr_destroy(&t);
    int inside = &here >= (char *)low && &here < (char *)low + size;
    int enough = size >= OWN_STACK - 65536, same = !(a[0] & 4) || (low == me->stack && size == OWN_STACK);
    r->x = inside | enough << 1 | same << 2 | (state == PTHREAD_CREATE_DETACHED) << 3;
}

static void name(const long *a, struct record *r) {
    char text[16], is[16] = "";
    snprintf(text, sizeof text, "fuzz %ld", a[0]);
    r->r = pthread_setname_np(pthread_self(), text);
    r->e = pthread_getname_np(pthread_self(), is, sizeof is);
    r->x = strcmp(text, is);
}

static void equal(const long *a, struct record *r) {
    r->r = pthread_equal(pthread_self(), T(0)->id) != 0;
    r->x = pthread_equal(pthread_self(), me->id) != 0;
}

static void ended(void *p) { atomic_fetch_add((atomic_long *)p, 1); }

CALL(key_create, pthread_key_create(&O(0)->key, ended))
CALL(key_delete, pthread_key_delete(O(0)->key))
CALL(key_set, pthread_setspecific(O(0)->key, a[1] ? (void *)&O(0)->sum : NULL))

static void key_get(const long *a, struct record *r) {
    void *value = pthread_getspecific(O(0)->key);
    r->r = value == &O(0)->sum ? 1 : value == NULL ? 0 : 2;
}

/* ended_keys OBJECT COUNT: waits until destructors have run that often. */
static void ended_keys(const long *a, struct record *r) {
    int turns = 0;
    while ((r->r = atomic_load(&O(0)->sum)) < a[1])
        pass_time(&turns);
}

static void compute(const long *a, struct record *r) {
    errno = (int)a[1] & 63;
    r->x = (int64_t)burn(a[0], a[1]);
    r->e = errno;
}

#define CROWD 50

static void *short_life(void *p) {
    long *seed = p;
    *seed = (long)burn(50 + (*seed & 255), (uint64_t)*seed);
    return seed;
}

/* crowd ROUNDS SEED: threads that soon end, over and over. */
static void crowd(const long *a, struct record *r) {
    for (long round = 0; round < a[0]; round++) {
        pthread_t all[CROWD];
        long seeds[CROWD];
        int made = 0;
        for (; made < CROWD; made++) {
            seeds[made] = a[1] + round * CROWD + made;
            if ((r->e = pthread_create(&all[made], NULL, short_life, &seeds[made])) != 0)
                break;
        }
        while (made-- > 0) {
            void *value = NULL;
            r->r |= pthread_join(all[made], &value) != 0 || value != &seeds[made];
            r->x ^= seeds[made];
        }
    }
}

pthread_rwlock_t children = PTHREAD_RWLOCK_INITIALIZER;

/* run_child HOW CODE: a child that ends with CODE, or by a signal; and how it ended. */
static void run_child(const long *a, struct record *r) {
    pthread_rwlock_wrlock(&children);
    pid_t child = fork();
    if (child == 0) {
        if (a[0] == 1)
            kill(getpid(), SIGKILL);
        _exit((int)a[1]);
    }
    int status = -1;
    pid_t got;
    do
        got = waitpid(child, &status, 0);
    while (got < 0 && errno == EINTR);
    pthread_rwlock_unlock(&children);
    r->r = got == child;
    r->x = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/* cpu_time ROUNDS: the thread's own clock goes on while it computes, by no more than the time that passes, and not while it sleeps. */
static void cpu_time(const long *a, struct record *r) {
    struct timespec t[3], wall[2];
    clockid_t own;
    r->r = pthread_getcpuclockid(pthread_self(), &own);
    if (r->r)
        return;
    clock_gettime(CLOCK_MONOTONIC, &wall[0]);
    r->e |= clock_gettime(own, &t[0]);
    burn(a[0], 1);
    r->e |= clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t[1]);
    clock_gettime(CLOCK_MONOTONIC, &wall[1]);
    nap(2000);
    r->e |= clock_gettime(own, &t[2]);
#define NANOSECONDS(from, to) ((to.tv_sec - from.tv_sec) * 1000000000L + to.tv_nsec - from.tv_nsec)
    long computed = NANOSECONDS(t[0], t[1]);
    r->x = (computed > 0) | (computed <= NANOSECONDS(wall[0], wall[1]) + 1000000) << 1 |
           (NANOSECONDS(t[1], t[2]) >= 0) << 2;
}

const struct entry thread_operations[] = {
    {"create", create},
    {"join", join},
    {"tryjoin", join_try},
    {"timedjoin", join_timed},
    {"join_self", join_self},
    {"detach", detach},
    {"cancel", cancel},
    {"alive", alive},
    {"exit", leave},
    {"cancel_state", cancel_state},
    {"cancel_type", cancel_type},
    {"testcancel", test_cancel},
    {"compute_for_ever", compute_for_ever},
    {"attributes", attributes},
    {"name", name},
    {"equal", equal},
    {"key_create", key_create},
    {"key_delete", key_delete},
    {"key_set", key_set},
    {"key_get", key_get},
    {"ended_keys", ended_keys},
    {"compute", compute},
    {"crowd", crowd},
    {"run_child", run_child},
    {"cpu_time", cpu_time},
    {NULL, NULL},
};
