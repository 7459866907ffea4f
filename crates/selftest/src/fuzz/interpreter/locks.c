/* Mutexes, read-write locks, spin locks, barriers. */
#include "fuzz.h"

#include <dlfcn.h>

/* The C library's own functions, as a plugin finds them that does not look at the program's first. */
static struct {
    typeof(pthread_mutex_init) *init;
    typeof(pthread_mutex_lock) *lock, *trylock, *unlock, *consistent, *destroy;
} libc;

__attribute__((constructor)) static void find_libc(void) {
    void *library = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    libc.init = dlsym(library, "pthread_mutex_init");
    libc.lock = dlsym(library, "pthread_mutex_lock");
    libc.trylock = dlsym(library, "pthread_mutex_trylock");
    libc.unlock = dlsym(library, "pthread_mutex_unlock");
    libc.consistent = dlsym(library, "pthread_mutex_consistent");
    libc.destroy = dlsym(library, "pthread_mutex_destroy");
}

static void make_mutex(const long *a, struct record *r, typeof(pthread_mutex_init) *init) {
    static const int kinds[] = {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_ERRORCHECK,
                                PTHREAD_MUTEX_ADAPTIVE_NP};
    pthread_mutexattr_t m;
    pthread_mutexattr_init(&m);
    pthread_mutexattr_settype(&m, kinds[a[1]]);
    pthread_mutexattr_setprotocol(&m, a[2] ? PTHREAD_PRIO_INHERIT : PTHREAD_PRIO_NONE);
    pthread_mutexattr_setrobust(&m, a[3] ? PTHREAD_MUTEX_ROBUST : PTHREAD_MUTEX_STALLED);
    pthread_mutexattr_setpshared(&m, a[4] ? PTHREAD_PROCESS_SHARED : PTHREAD_PROCESS_PRIVATE);
    r->r = init(&O(0)->mutex, &m);
    pthread_mutexattr_destroy(&m);
}

static void mutex_init(const long *a, struct record *r) { make_mutex(a, r, pthread_mutex_init); }
static void libc_init(const long *a, struct record *r) { make_mutex(a, r, libc.init); }

CALL(libc_lock, libc.lock(&O(0)->mutex))
CALL(libc_trylock, libc.trylock(&O(0)->mutex))
CALL(libc_unlock, libc.unlock(&O(0)->mutex))
CALL(libc_consistent, libc.consistent(&O(0)->mutex))
CALL(libc_destroy, libc.destroy(&O(0)->mutex))

static int timed(pthread_mutex_t *m, long ms, long monotonic) {
    struct timespec t = in_ms(clock_of(monotonic), ms);
    return monotonic ? pthread_mutex_clocklock(m, CLOCK_MONOTONIC, &t) : pthread_mutex_timedlock(m, &t);
}

CALL(lock, pthread_mutex_lock(&O(0)->mutex))
CALL(trylock, pthread_mutex_trylock(&O(0)->mutex))
CALL(timedlock, timed(&O(0)->mutex, a[1], a[2]))
CALL(unlock, pthread_mutex_unlock(&O(0)->mutex))
CALL(consistent, pthread_mutex_consistent(&O(0)->mutex))
CALL(mutex_destroy, pthread_mutex_destroy(&O(0)->mutex))

static int acquire(pthread_mutex_t *m, long how) {
    int result, turns = 0;
    switch (how) {
    case 1:
        return timed(m, 600000, 0);
    case 2:
        return timed(m, 600000, 1);
    case 3:
        while ((result = pthread_mutex_trylock(m)) == EBUSY)
            pass_time(&turns);
        return result;
    default:
        return pthread_mutex_lock(m);
    }
}

/* hammer_mutex OBJECT ROUNDS HOW WORK: increments what the mutex guards. */
static void hammer_mutex(const long *a, struct record *r) {
    for (long i = 0; i < a[1]; i++) {
        if (acquire(&O(0)->mutex, a[2]))
            r->r++;
        long v = O(0)->value;
        burn(a[3], 1);
        O(0)->value = v + 1;
        if (pthread_mutex_unlock(&O(0)->mutex))
            r->e++;
    }
}

/* What an object counted: guarded, and atomically. */
static void value(const long *a, struct record *r) {
    r->r = O(0)->value;
    r->x = atomic_load(&O(0)->sum);
}

static void rw_init(const long *a, struct record *r) {
    static const int kinds[] = {PTHREAD_RWLOCK_PREFER_READER_NP, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP};
    pthread_rwlockattr_t t;
    pthread_rwlockattr_init(&t);
    pthread_rwlockattr_setkind_np(&t, kinds[a[1]]);
    r->r = pthread_rwlock_init(&O(0)->rwlock, &t);
    pthread_rwlockattr_destroy(&t);
}

static int rw_timed(pthread_rwlock_t *l, long write, long ms, long monotonic) {
    struct timespec t = in_ms(clock_of(monotonic), ms);
    if (monotonic)
        return (write ? pthread_rwlock_clockwrlock : pthread_rwlock_clockrdlock)(l, CLOCK_MONOTONIC, &t);
    return (write ? pthread_rwlock_timedwrlock : pthread_rwlock_timedrdlock)(l, &t);
}

CALL(rdlock, pthread_rwlock_rdlock(&O(0)->rwlock))
CALL(wrlock, pthread_rwlock_wrlock(&O(0)->rwlock))
CALL(tryrdlock, pthread_rwlock_tryrdlock(&O(0)->rwlock))
CALL(trywrlock, pthread_rwlock_trywrlock(&O(0)->rwlock))
CALL(timedrdlock, rw_timed(&O(0)->rwlock, 0, a[1], a[2]))
CALL(timedwrlock, rw_timed(&O(0)->rwlock, 1, a[1], a[2]))
CALL(rw_unlock, pthread_rwlock_unlock(&O(0)->rwlock))
CALL(rw_destroy, pthread_rwlock_destroy(&O(0)->rwlock))

/* hammer_rw OBJECT ROUNDS EVERY WORK: writes every so many rounds, and otherwise reads what must be equal. */
static void hammer_rw(const long *a, struct record *r) {
    for (long i = 0; i < a[1]; i++) {
        int writes = i % a[2] == 0;
        if ((writes ? pthread_rwlock_wrlock : pthread_rwlock_rdlock)(&O(0)->rwlock))
            r->r++;
        long v = O(0)->value;
        burn(a[3], 1);
        if (writes) {
            O(0)->value = v + 1;
            burn(a[3], 1);
            O(0)->twin++;
        } else if (O(0)->twin != v) {
            r->e++;
        }
        pthread_rwlock_unlock(&O(0)->rwlock);
    }
}

CALL(spin_init, pthread_spin_init(&O(0)->spin, 0))
CALL(spin_lock, pthread_spin_lock(&O(0)->spin))
CALL(spin_trylock, pthread_spin_trylock(&O(0)->spin))
CALL(spin_unlock, pthread_spin_unlock(&O(0)->spin))
CALL(spin_destroy, pthread_spin_destroy(&O(0)->spin))

static void hammer_spin(const long *a, struct record *r) {
    for (long i = 0; i < a[1]; i++) {
        r->r += pthread_spin_lock(&O(0)->spin);
        O(0)->value++;
        pthread_spin_unlock(&O(0)->spin);
    }
}

CALL(barrier_init, pthread_barrier_init(&O(0)->barrier, NULL, a[1]))
CALL(barrier_destroy, pthread_barrier_destroy(&O(0)->barrier))

/* barrier_wait OBJECT ROUNDS: nobody may be a round ahead; one of all is told that it is the one. */
static void barrier_wait(const long *a, struct record *r) {
    for (long i = 0; i < a[1]; i++) {
        if (me->index % 2)
            burn(me->index * 100, 1);
        int result = pthread_barrier_wait(&O(0)->barrier);
        if (result == PTHREAD_BARRIER_SERIAL_THREAD)
            atomic_fetch_add(&O(0)->sum, 1);
        else if (result)
            r->r++;
    }
}

const struct entry lock_operations[] = {
    {"mutex_init", mutex_init},
    {"lock", lock},
    {"trylock", trylock},
    {"timedlock", timedlock},
    {"unlock", unlock},
    {"consistent", consistent},
    {"mutex_destroy", mutex_destroy},
    {"libc_init", libc_init},
    {"libc_lock", libc_lock},
    {"libc_trylock", libc_trylock},
    {"libc_unlock", libc_unlock},
    {"libc_consistent", libc_consistent},
    {"libc_destroy", libc_destroy},
    {"hammer_mutex", hammer_mutex},
    {"value", value},
    {"rw_init", rw_init},
    {"rdlock", rdlock},
    {"wrlock", wrlock},
    {"tryrdlock", tryrdlock},
    {"trywrlock", trywrlock},
    {"timedrdlock", timedrdlock},
    {"timedwrlock", timedwrlock},
    {"rw_unlock", rw_unlock},
    {"rw_destroy", rw_destroy},
    {"hammer_rw", hammer_rw},
    {"spin_init", spin_init},
    {"spin_lock", spin_lock},
    {"spin_trylock", spin_trylock},
    {"spin_unlock", spin_unlock},
    {"spin_destroy", spin_destroy},
    {"hammer_spin", hammer_spin},
    {"barrier_init", barrier_init},
    {"barrier_wait", barrier_wait},
    {"barrier_destroy", barrier_destroy},
    {NULL, NULL},
};
