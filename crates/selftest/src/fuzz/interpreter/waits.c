/* Condition variables, semaphores, pthread_once, futexes, and time. */
#include "fuzz.h"
#include <linux/futex.h>
#include <sys/syscall.h>

static void cond_init(const long *a, struct record *r) {
    pthread_condattr_t c;
    pthread_condattr_init(&c);
    pthread_condattr_setclock(&c, clock_of(a[1]));
    r->r = pthread_cond_init(&O(0)->cond, &c);
    pthread_condattr_destroy(&c);
}

struct held {
    pthread_mutex_t *mutex;
    struct record *record;
};

/* Cancelled in a wait: the mutex is the thread's again. */
static void give_back(void *p) {
    struct held *h = p;
    h->record->x = 77 + pthread_mutex_unlock(h->mutex);
}

/* cond_await COND MUTEX VALUE: waits until the value is there. */
static void cond_await(const long *a, struct record *r) {
    struct held h = {&O(1)->mutex, r};
    r->e = pthread_mutex_lock(h.mutex);
    pthread_cleanup_push(give_back, &h);
    while (O(0)->value < a[2] && !r->r)
        r->r = pthread_cond_wait(&O(0)->cond, h.mutex);
    pthread_cleanup_pop(1);
}

/* cond_set COND MUTEX VALUE BROADCAST HELD */
static void cond_set(const long *a, struct record *r) {
    r->e = pthread_mutex_lock(&O(1)->mutex);
    O(0)->value = a[2];
    if (!a[4])
        pthread_mutex_unlock(&O(1)->mutex);
    r->r = (a[3] ? pthread_cond_broadcast : pthread_cond_signal)(&O(0)->cond);
    if (a[4])
        pthread_mutex_unlock(&O(1)->mutex);
}

/* cond_timedwait COND MUTEX MS HOW CLOCK: until the deadline; HOW 1: by pthread_cond_clockwait. */
static void cond_timedwait(const long *a, struct record *r) {
    clockid_t clock = clock_of(a[4]);
    struct timespec t = in_ms(clock, a[2]), now;
    r->e = pthread_mutex_lock(&O(1)->mutex);
    while (!r->r)
        r->r = a[3] ? pthread_cond_clockwait(&O(0)->cond, &O(1)->mutex, clock, &t)
                    : pthread_cond_timedwait(&O(0)->cond, &O(1)->mutex, &t);
    clock_gettime(clock, &now);
    r->x = now.tv_sec > t.tv_sec || (now.tv_sec == t.tv_sec && now.tv_nsec >= t.tv_nsec);
    r->e += pthread_mutex_unlock(&O(1)->mutex);
}

/* pong COND MUTEX MINE PLAYERS ROUNDS: passes the turn round. */
static void pong(const long *a, struct record *r) {
    for (long i = 0; i < a[4]; i++) {
        r->e |= pthread_mutex_lock(&O(1)->mutex);
        while (O(0)->value % a[3] != a[2])
            r->r |= pthread_cond_wait(&O(0)->cond, &O(1)->mutex);
        O(0)->value++;
        (a[3] == 2 ? pthread_cond_signal : pthread_cond_broadcast)(&O(0)->cond);
        r->e |= pthread_mutex_unlock(&O(1)->mutex);
    }
}

CALL(cond_destroy, pthread_cond_destroy(&O(0)->cond))

static int semaphore_timed(sem_t *s, long ms, long monotonic) {
    struct timespec t = in_ms(clock_of(monotonic), ms);
    return monotonic ? sem_clockwait(s, CLOCK_MONOTONIC, &t) : sem_timedwait(s, &t);
}

CALL_ERRNO(semaphore_init, sem_init(&O(0)->sem, 0, a[1]))
CALL_ERRNO(semaphore_wait, sem_wait(&O(0)->sem))
CALL_ERRNO(semaphore_trywait, sem_trywait(&O(0)->sem))
CALL_ERRNO(semaphore_timedwait, semaphore_timed(&O(0)->sem, a[1], a[2]))
CALL_ERRNO(semaphore_destroy, sem_destroy(&O(0)->sem))

static void semaphore_post(const long *a, struct record *r) {
    for (long i = 0; i < a[1]; i++)
        returned(r, sem_post(&O(0)->sem));
}

static void semaphore_value(const long *a, struct record *r) {
    int v = -1;
    returned(r, sem_getvalue(&O(0)->sem, &v));
    r->x = v;
}

/* semaphore_pong MINE OTHER ROUNDS */
static void semaphore_pong(const long *a, struct record *r) {
    for (long i = 0; i < a[2]; i++) {
        r->r |= sem_wait(&O(0)->sem);
        O(0)->value++;
        r->r |= sem_post(&O(1)->sem);
    }
}

/* semaphore_guard OBJECT ROUNDS: a semaphore of one as a lock. */
static void semaphore_guard(const long *a, struct record *r) {
    for (long i = 0; i < a[1]; i++) {
        r->r |= sem_wait(&O(0)->sem);
        O(0)->value++;
        r->r |= sem_post(&O(0)->sem);
    }
}

static struct object *at_once;

static void once_routine(void) {
    burn(20000, 1);
    atomic_fetch_add(&at_once->sum, 1);
}

/* once_init OBJECT: one object at a time is being initialised. */
static void once_init(const long *a, struct record *r) {
    (void)r;
    at_once = O(0);
    O(0)->once = (pthread_once_t)PTHREAD_ONCE_INIT;
}

static void once(const long *a, struct record *r) {
    r->r = pthread_once(&O(0)->once, once_routine);
    r->x = atomic_load(&O(0)->sum);
}

/* sleep_for MICROSECONDS HOW: 0 nanosleep, 1 clock_nanosleep, 2 the same to a moment, 3 usleep, 4 to a moment that is past. */
static void sleep_for(const long *a, struct record *r) {
    struct timespec t = {a[0] / 1000000, a[0] % 1000000 * 1000}, left = {0, 0}, before, now;
    clock_gettime(CLOCK_MONOTONIC, &before);
    int64_t end = before.tv_sec * 1000000000L + before.tv_nsec + a[0] * 1000;
    switch (a[1]) {
    case 1:
        r->r = clock_nanosleep(CLOCK_MONOTONIC, 0, &t, &left);
        break;
    case 2:
        t = (struct timespec){end / 1000000000, end % 1000000000};
        r->r = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
        break;
    case 3:
        returned(r, usleep(a[0]));
        break;
    case 4:
        t = (struct timespec){1, 0};
        r->r = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
        return;
    default:
        returned(r, nanosleep(&t, &left));
    }
    clock_gettime(CLOCK_MONOTONIC, &now);
    /* What was left, if it was interrupted; and was it long enough? */
    r->x = (left.tv_sec || left.tv_nsec) | (now.tv_sec * 1000000000L + now.tv_nsec >= end) << 1;
}

static long futex(struct object *o, int operation, long value, const struct timespec *limit) {
    return syscall(SYS_futex, &o->word, operation | FUTEX_PRIVATE_FLAG, value, limit, NULL, FUTEX_BITSET_MATCH_ANY);
}

/* futex_wait OBJECT VALUE MS HOW: while the word has it. HOW 0 for so long, 1 until then, 2 by the other clock; MS -1 for ever. */
static void futex_wait(const long *a, struct record *r) {
    static const int how[] = {FUTEX_WAIT, FUTEX_WAIT_BITSET, FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME};
    struct timespec t = {a[2] / 1000, a[2] % 1000 * 1000000};
    if (a[3])
        t = in_ms(clock_of(a[3] == 1), a[2]);
    do
        returned(r, futex(O(0), how[a[3]], a[1], a[2] < 0 ? NULL : &t));
    while (!r->r && atomic_load(&O(0)->word) == a[1]);
    if (r->e == EAGAIN)
        *r = (struct record){.begun = r->begun};
}

/* futex_set OBJECT VALUE COUNT: and wakes so many. */
static void futex_set(const long *a, struct record *r) {
    atomic_store(&O(0)->word, a[1]);
    r->r = futex(O(0), FUTEX_WAKE, a[2], NULL) < 0;
}

/* futex_guard OBJECT ROUNDS: as a lock; 2: somebody may wait. */
static void futex_guard(const long *a, struct record *r) {
    for (long i = 0; i < a[1]; i++) {
        int free = 0;
        if (!atomic_compare_exchange_strong(&O(0)->word, &free, 1))
            while (atomic_exchange(&O(0)->word, 2))
                r->e |= futex(O(0), FUTEX_WAIT, 2, NULL) && errno != EAGAIN;
        O(0)->value++;
        if (atomic_exchange(&O(0)->word, 0) == 2)
            r->r |= futex(O(0), FUTEX_WAKE, 1, NULL) < 0;
    }
}

const struct entry wait_operations[] = {
    {"cond_init", cond_init},
    {"cond_await", cond_await},
    {"cond_set", cond_set},
    {"cond_timedwait", cond_timedwait},
    {"pong", pong},
    {"cond_destroy", cond_destroy},
    {"sem_init", semaphore_init},
    {"sem_wait", semaphore_wait},
    {"sem_trywait", semaphore_trywait},
    {"sem_timedwait", semaphore_timedwait},
    {"sem_post", semaphore_post},
    {"sem_value", semaphore_value},
    {"sem_destroy", semaphore_destroy},
    {"sem_pong", semaphore_pong},
    {"sem_guard", semaphore_guard},
    {"once_init", once_init},
    {"once", once},
    {"sleep", sleep_for},
    {"futex_wait", futex_wait},
    {"futex_set", futex_set},
    {"futex_guard", futex_guard},
    {NULL, NULL},
};
