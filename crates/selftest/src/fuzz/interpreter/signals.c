/* Signals: handlers, masks, waiting for them, and calls that they interrupt. */
#include "fuzz.h"

/* Signals that programs use: not SIGURG, by which the runtime preempts. Between operations every thread blocks all of them, and
 * all have `handler`. */
static const int pool[] = {SIGUSR1, SIGUSR2, SIGALRM, SIGWINCH, SIGIO, 36, 37, 40, 50};
#define POOL (sizeof pool / sizeof *pool)
#define ALTERNATE 65536

/* Handlers that ran on threads that are none of the program's. */
static atomic_long elsewhere[65];

static void handler(int signal, siginfo_t *info, void *context) {
    (void)context;
    char here;
    if (!me) {
        atomic_fetch_add(&elsewhere[signal], 1);
        return;
    }
    me->code = info->si_code;
    me->value = info->si_value.sival_int;
    char *low = me->alternate;
    me->on_alternate = low && &here >= low && &here < low + ALTERNATE;
    atomic_fetch_add(&me->handled[signal], 1);
}

static sigset_t only(int signal) {
    sigset_t s;
    sigemptyset(&s);
    sigaddset(&s, signal);
    return s;
}

static sigset_t all_of_pool(void) {
    sigset_t s;
    sigemptyset(&s);
    for (size_t i = 0; i < POOL; i++)
        sigaddset(&s, pool[i]);
    return s;
}

static int install(int signal, int flags, int also, struct sigaction *old) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = flags | SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    if (also)
        sigaddset(&action.sa_mask, also);
    return sigaction(signal, &action, old);
}

void signals_before(void) {
    sigset_t s = all_of_pool();
    pthread_sigmask(SIG_BLOCK, &s, NULL);
    for (size_t i = 0; i < POOL; i++)
        install(pool[i], 0, 0, NULL);
    signal(SIGPIPE, SIG_IGN);
}

void signals_after(void) {
    sigset_t s = all_of_pool();
    struct timespec none = {0, 0};
    while (sigtimedwait(&s, NULL, &none) > 0) {
    }
    for (size_t i = 0; i < 65; i++)
        atomic_store(&elsewhere[i], 0);
}

/* set_handler SIGNAL FLAGS ALSO: 1 SA_RESTART, 2 SA_ONSTACK, 4 SA_NODEFER, 8 SA_RESETHAND; what it was before. */
static void set_handler(const long *a, struct record *r) {
    struct sigaction old;
    int flags = (a[1] & 1 ? SA_RESTART : 0) | (a[1] & 2 ? SA_ONSTACK : 0) | (a[1] & 4 ? SA_NODEFER : 0) |
                (a[1] & 8 ? (int)SA_RESETHAND : 0);
    returned(r, install(a[0], flags, a[2], &old));
    r->x = old.sa_handler == SIG_DFL ? 0 : old.sa_handler == SIG_IGN ? 1 : 2;
}

static void ignore(const long *a, struct record *r) {
    struct sigaction old, action = {.sa_handler = SIG_IGN};
    returned(r, sigaction(a[0], &action, &old));
    r->x = old.sa_handler == SIG_DFL ? 0 : old.sa_handler == SIG_IGN ? 1 : 2;
}

/* mask HOW SIGNAL: was it blocked before? */
static void mask(const long *a, struct record *r) {
    static const int hows[] = {SIG_BLOCK, SIG_UNBLOCK};
    sigset_t s = only(a[1]), old;
    r->r = pthread_sigmask(hows[a[0]], &s, &old);
    r->x = sigismember(&old, a[1]);
}

/* blocked SIGNAL: is it? */
static void blocked(const long *a, struct record *r) {
    sigset_t old;
    r->r = pthread_sigmask(SIG_BLOCK, NULL, &old);
    r->x = sigismember(&old, a[0]);
}

static void pending(const long *a, struct record *r) {
    sigset_t s;
    returned(r, sigpending(&s));
    r->x = sigismember(&s, a[0]);
}

CALL(kill_thread, pthread_kill(threads[a[0]].id, a[1]))
CALL_ERRNO(kill_process, kill(getpid(), a[0]))
CALL_ERRNO(raise_here, raise(a[0]))
CALL_ERRNO(queue_process, sigqueue(getpid(), a[0], (union sigval){.sival_int = a[1]}))
CALL(queue_thread, pthread_sigqueue(threads[a[0]].id, a[1], (union sigval){.sival_int = a[2]}))

/* What handlers have seen on this thread: how often, with which code; forgotten thereafter. */
static void take(int signal, struct record *r) {
    r->r = atomic_exchange(&me->handled[signal], 0);
    if (r->r) {
        r->x = me->code * 2 + me->on_alternate;
        r->e = me->code == SI_QUEUE ? me->value : 0;
    }
}

/* handled SIGNAL TIMES HOW: waits for that; HOW 1: computing. */
static void handled(const long *a, struct record *r) {
    int turns = 0;
    while (atomic_load(&me->handled[a[0]]) < a[1]) {
        if (a[2])
            compute_a_while();
        else
            pass_time(&turns);
    }
    take(a[0], r);
}

static void count(const long *a, struct record *r) { take(a[0], r); }

/* anywhere SIGNAL TIMES: waits until handlers have run that often on any threads. */
static void anywhere(const long *a, struct record *r) {
    for (int turns = 0; r->r < a[1]; pass_time(&turns))
        for (int i = 0; i < THREADS; i++)
            r->r += atomic_exchange(&threads[i].handled[a[0]], 0);
}

static void wait_signal(const long *a, struct record *r) {
    sigset_t s = only(a[0]);
    int got = 0;
    r->r = sigwait(&s, &got);
    r->x = got;
}

static void wait_info(const long *a, struct record *r) {
    sigset_t s = only(a[0]);
    siginfo_t info = {0};
    returned(r, sigwaitinfo(&s, &info));
    if (r->r > 0)
        r->x = info.si_code * 1000 + (info.si_code == SI_QUEUE ? info.si_value.sival_int : 0);
}

static void wait_timed(const long *a, struct record *r) {
    sigset_t s = only(a[0]);
    siginfo_t info = {0};
    struct timespec t = {a[1] / 1000, a[1] % 1000 * 1000000};
    returned(r, sigtimedwait(&s, &info, &t));
    r->x = r->r > 0 ? info.si_code : 0;
}

/* suspend SIGNAL: with all of the thread's mask but that one. */
static void suspend(const long *a, struct record *r) {
    sigset_t s;
    pthread_sigmask(SIG_BLOCK, NULL, &s);
    sigdelset(&s, a[0]);
    returned(r, sigsuspend(&s));
    struct record seen = {0};
    take(a[0], &seen);
    r->x = seen.r * 1000 + seen.x;
}

/* pester THREAD SIGNAL OPERATION: until that operation is done, which it is to interrupt. */
static void pester(const long *a, struct record *r) {
    (void)r;
    while (!atomic_load(&records[a[2]].done)) {
        pthread_kill(threads[a[0]].id, a[1]);
        nap(300);
    }
}

/* clear SIGNAL: blocks it, and forgets it. */
static void clear(const long *a, struct record *r) {
    sigset_t s = only(a[0]), is;
    struct timespec none = {0, 0};
    r->r = pthread_sigmask(SIG_BLOCK, &s, NULL);
    while (!sigpending(&is) && sigismember(&is, a[0]))
        sigtimedwait(&s, NULL, &none);
    atomic_store(&me->handled[a[0]], 0);
}

/* alternate ON: gives the thread an alternate stack, or takes it away. */
static void alternate(const long *a, struct record *r) {
    stack_t s = {0}, old;
    if (a[0]) {
        me->alternate = s.ss_sp = malloc(ALTERNATE);
        s.ss_size = ALTERNATE;
    } else {
        s.ss_flags = SS_DISABLE;
    }
    returned(r, sigaltstack(&s, &old));
    r->x = old.ss_flags;
    if (!a[0]) {
        free(me->alternate);
        me->alternate = NULL;
    }
}

const struct entry signal_operations[] = {
    {"set_handler", set_handler},
    {"ignore", ignore},
    {"mask", mask},
    {"blocked", blocked},
    {"pending", pending},
    {"kill", kill_thread},
    {"kill_process", kill_process},
    {"raise", raise_here},
    {"queue_process", queue_process},
    {"queue_thread", queue_thread},
    {"handled", handled},
    {"count", count},
    {"anywhere", anywhere},
    {"sigwait", wait_signal},
    {"sigwaitinfo", wait_info},
    {"sigtimedwait", wait_timed},
    {"sigsuspend", suspend},
    {"pester", pester},
    {"clear", clear},
    {"alternate", alternate},
    {NULL, NULL},
};
