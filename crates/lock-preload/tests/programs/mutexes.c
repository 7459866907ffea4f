/* Each call on each kind of mutex whose result is defined, by POSIX or by glibc. */
#define _GNU_SOURCE
#include "objects.h"

static int timed(pthread_mutex_t *m) { return pthread_mutex_timedlock(m, soon(CLOCK_REALTIME)); }
static int timed_monotonic(pthread_mutex_t *m)
{
    return pthread_mutex_clocklock(m, CLOCK_MONOTONIC, soon(CLOCK_MONOTONIC));
}
static int timed_past(pthread_mutex_t *m) { return pthread_mutex_timedlock(m, &PAST); }
static int timed_before(pthread_mutex_t *m) { return pthread_mutex_timedlock(m, &BEFORE); }
static int timed_nonsense(pthread_mutex_t *m) { return pthread_mutex_timedlock(m, &NONSENSE); }
static int timed_negative(pthread_mutex_t *m) { return pthread_mutex_timedlock(m, &NEGATIVE); }
static int timed_cpu(pthread_mutex_t *m) { return pthread_mutex_clocklock(m, CLOCK_PROCESS_CPUTIME_ID, &PAST); }
static int lock_and_end(pthread_mutex_t *m) { return pthread_mutex_lock(m); }

/* What can be done with a mutex of any kind; `again`: what its owner may do without waiting for ever. */
static void all_calls(const char *kind, pthread_mutex_t *m, int again, int checks)
{
    SHOW_AS(kind, pthread_mutex_lock(m));
    SHOW_AS(kind, pthread_mutex_trylock(m));
    if (again)
        SHOW_AS(kind, pthread_mutex_lock(m));
    SHOW_AS(kind, timed(m));
    SHOW_AS(kind, timed_monotonic(m));
    SHOW_AS(kind, timed_past(m));
    SHOW_AS(kind, timed_nonsense(m));
    SHOW_AS(kind, timed_cpu(m));
    SHOW_AS(kind, ELSEWHERE(pthread_mutex_trylock, m));
    SHOW_AS(kind, ELSEWHERE(timed, m));
    SHOW_AS(kind, ELSEWHERE(timed_monotonic, m));
    SHOW_AS(kind, ELSEWHERE(timed_past, m));
    SHOW_AS(kind, ELSEWHERE(timed_before, m));
    SHOW_AS(kind, ELSEWHERE(timed_nonsense, m));
    SHOW_AS(kind, ELSEWHERE(timed_negative, m));
    SHOW_AS(kind, ELSEWHERE(timed_cpu, m));
    if (checks)
        SHOW_AS(kind, ELSEWHERE(pthread_mutex_unlock, m));
    SHOW_AS(kind, pthread_mutex_destroy(m));
    SHOW_AS(kind, pthread_mutex_unlock(m));
    if (checks) {
        for (int i = 0; i < 12; i++)
            SHOW_AS(kind, pthread_mutex_unlock(m));
        SHOW_AS(kind, ELSEWHERE(pthread_mutex_unlock, m));
    }
    SHOW_AS(kind, timed_past(m));
    SHOW_AS(kind, pthread_mutex_unlock(m));
    SHOW_AS(kind, timed_nonsense(m));
    SHOW_AS(kind, pthread_mutex_unlock(m));
    SHOW_AS(kind, timed_cpu(m));
    SHOW_AS(kind, ELSEWHERE(pthread_mutex_trylock, m) == 0 ? 0 : EBUSY);
    SHOW_AS(kind, pthread_mutex_trylock(m));
}

static void made(const char *kind, int type, int robust, int shared, int protocol)
{
    pthread_mutexattr_t a;
    pthread_mutex_t m;
    DO(pthread_mutexattr_init(&a));
    DO(pthread_mutexattr_settype(&a, type));
    DO(pthread_mutexattr_setrobust(&a, robust ? PTHREAD_MUTEX_ROBUST : PTHREAD_MUTEX_STALLED));
    DO(pthread_mutexattr_setpshared(&a, shared ? PTHREAD_PROCESS_SHARED : PTHREAD_PROCESS_PRIVATE));
    DO(pthread_mutexattr_setprotocol(&a, protocol));
    DO(pthread_mutex_init(&m, &a));
    int again = type == PTHREAD_MUTEX_RECURSIVE || type == PTHREAD_MUTEX_ERRORCHECK;
    all_calls(kind, &m, again, again || robust);
}

static void depth(void)
{
    pthread_mutex_t m = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
    for (int i = 0; i < 1000; i++)
        DO(pthread_mutex_lock(&m));
    for (int i = 0; i < 999; i++)
        DO(pthread_mutex_unlock(&m));
    SHOW(ELSEWHERE(pthread_mutex_trylock, &m));
    SHOW(pthread_mutex_unlock(&m));
    SHOW(pthread_mutex_unlock(&m));
    SHOW(pthread_mutex_destroy(&m));
}

static void owners_die(void)
{
    pthread_mutexattr_t a;
    pthread_mutex_t m;
    DO(pthread_mutexattr_init(&a));
    DO(pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST));
    DO(pthread_mutex_init(&m, &a));
    SHOW(ELSEWHERE(lock_and_end, &m));
    SHOW(pthread_mutex_lock(&m));
    SHOW(pthread_mutex_consistent(&m));
    SHOW(pthread_mutex_consistent(&m));
    SHOW(pthread_mutex_unlock(&m));
    SHOW(ELSEWHERE(lock_and_end, &m));
    SHOW(pthread_mutex_trylock(&m));
    SHOW(pthread_mutex_unlock(&m));
    SHOW(pthread_mutex_lock(&m));
    SHOW(pthread_mutex_trylock(&m));
    SHOW(timed(&m));
    SHOW(pthread_mutex_destroy(&m));
}

static void ceilings(void)
{
    pthread_mutexattr_t a;
    pthread_mutex_t m;
    int old = -1;
    DO(pthread_mutexattr_init(&a));
    DO(pthread_mutexattr_setprotocol(&a, PTHREAD_PRIO_PROTECT));
    DO(pthread_mutex_init(&m, &a));
    SHOW(pthread_mutex_getprioceiling(&m, &old));
    SAY("ceiling", old);
    SHOW(pthread_mutex_setprioceiling(&m, 1000, &old));
    pthread_mutex_t n = PTHREAD_MUTEX_INITIALIZER;
    SHOW(pthread_mutex_getprioceiling(&n, &old));
    SHOW(pthread_mutex_consistent(&n));
}

/* Between processes, and in the child of fork. */
static void processes(void)
{
    pthread_mutexattr_t a;
    struct {
        pthread_mutex_t shared, robust;
    } *s = mmap(0, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutex_t normal = PTHREAD_MUTEX_INITIALIZER, checked = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP,
                    recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
    DO(pthread_mutexattr_init(&a));
    DO(pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED));
    DO(pthread_mutex_init(&s->shared, &a));
    DO(pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST));
    DO(pthread_mutex_init(&s->robust, &a));
    DO(pthread_mutex_lock(&s->shared));
    DO(pthread_mutex_lock(&normal));
    DO(pthread_mutex_lock(&checked));
    DO(pthread_mutex_lock(&recursive));
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        SHOW(pthread_mutex_trylock(&s->shared));
        SHOW(pthread_mutex_trylock(&normal));
        SHOW(pthread_mutex_trylock(&recursive));
        SHOW(pthread_mutex_unlock(&normal));
        SHOW(pthread_mutex_lock(&normal));
        SHOW(pthread_mutex_unlock(&checked));
        SHOW(pthread_mutex_unlock(&recursive));
        SHOW(pthread_mutex_lock(&s->robust));
        fflush(stdout);
        _exit(0);
    }
    DO(waitpid(child, 0, 0) != child);
    SHOW(pthread_mutex_lock(&s->robust));
    SHOW(pthread_mutex_consistent(&s->robust));
    SHOW(pthread_mutex_unlock(&s->robust));
    SHOW(pthread_mutex_unlock(&s->shared));
    SHOW(pthread_mutex_unlock(&normal));
    SHOW(pthread_mutex_unlock(&checked));
    SHOW(pthread_mutex_unlock(&recursive));
}

static int c11_timed(mtx_t *m) { return mtx_timedlock(m, &PAST); }

static void c11(void)
{
    int types[] = {mtx_plain, mtx_timed, mtx_recursive, mtx_timed | mtx_recursive};
    for (int i = 0; i < 4; i++) {
        mtx_t m;
        SAY("mtx_init", mtx_init(&m, types[i]));
        SAY("mtx_lock", mtx_lock(&m));
        SAY("mtx_trylock", mtx_trylock(&m));
        SAY("mtx_trylock elsewhere", ELSEWHERE(mtx_trylock, &m));
        SAY("mtx_timedlock elsewhere", ELSEWHERE(c11_timed, &m));
        SAY("mtx_unlock", mtx_unlock(&m));
        /* Whatever functions lock and unlock it. */
        SAY("unlock as a pthread mutex", types[i] & mtx_recursive ? pthread_mutex_unlock((pthread_mutex_t *)&m) : 0);
        SAY("lock as a pthread mutex", pthread_mutex_lock((pthread_mutex_t *)&m));
        SAY("mtx_unlock", mtx_unlock(&m));
        mtx_destroy(&m);
    }
    SAY("mtx_init", mtx_init(&(mtx_t){0}, 77));
}

int main(void)
{
    pthread_mutex_t normal = PTHREAD_MUTEX_INITIALIZER, recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP,
                    checked = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP, adaptive = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
    all_calls("static normal", &normal, 0, 0);
    all_calls("static recursive", &recursive, 1, 1);
    all_calls("static errorcheck", &checked, 1, 1);
    all_calls("static adaptive", &adaptive, 0, 0);
    struct {
        const char *name;
        int type;
    } types[] = {{"normal", PTHREAD_MUTEX_NORMAL},
                 {"default", PTHREAD_MUTEX_DEFAULT},
                 {"recursive", PTHREAD_MUTEX_RECURSIVE},
                 {"errorcheck", PTHREAD_MUTEX_ERRORCHECK},
                 {"adaptive", PTHREAD_MUTEX_ADAPTIVE_NP}};
    for (int i = 0; i < 5; i++) {
        for (int more = 0; more < 8; more++) {
            char name[64];
            snprintf(name, sizeof name, "%s%s%s%s", types[i].name, more & 1 ? " robust" : "", more & 2 ? " shared" : "",
                     more & 4 ? " inherit" : "");
            made(name, types[i].type, more & 1, more & 2, more & 4 ? PTHREAD_PRIO_INHERIT : PTHREAD_PRIO_NONE);
        }
    }
    depth();
    owners_die();
    ceilings();
    processes();
    c11();
    return 0;
}
