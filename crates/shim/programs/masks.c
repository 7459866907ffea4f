/* Signals that are blocked: masks of calls, what is pending and how often, who waits for it, and what processes inherit. */
#define _GNU_SOURCE
#include "check.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static volatile sig_atomic_t got[65], last_value, in_order = 1;
static volatile siginfo_t seen;

static void note(int n, siginfo_t *info, void *context) {
    got[n]++;
    seen = *info;
    if (info->si_code == SI_QUEUE) {
        in_order &= info->si_value.sival_int > last_value;
        last_value = info->si_value.sival_int;
    }
    EXPECT(context != NULL);
}

static sigset_t set_of(int n) {
    sigset_t set;
    sigemptyset(&set);
    if (n != 0)
        sigaddset(&set, n);
    return set;
}

static int is_pending(int n) {
    sigset_t set;
    EXPECT(sigpending(&set) == 0);
    return sigismember(&set, n);
}

static void *send_later(void *p) {
    usleep(20000);
    EXPECT(kill(getpid(), (int)(long)p) == 0);
    return NULL;
}

/* A call whose mask allows what is blocked: `call(mask)` ends with EINTR, and afterwards it is blocked again. */
static void check_call(int (*call)(const sigset_t *)) {
    sigset_t none = set_of(0), usr1 = set_of(SIGUSR1);
    EXPECT(sigprocmask(SIG_SETMASK, &usr1, NULL) == 0);
    /* Pending before. */
    int before = got[SIGUSR1];
    EXPECT(kill(getpid(), SIGUSR1) == 0 && got[SIGUSR1] == before && is_pending(SIGUSR1));
    EXPECT(call(&none) == -1 && errno == EINTR && got[SIGUSR1] == before + 1 && !is_pending(SIGUSR1));
    /* Meanwhile, from another thread. */
    pthread_t t;
    EXPECT(pthread_create(&t, NULL, send_later, (void *)SIGUSR1) == 0);
    EXPECT(call(&none) == -1 && errno == EINTR && got[SIGUSR1] == before + 2 && pthread_join(t, NULL) == 0);
    /* Meanwhile, from another process. */
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        usleep(20000);
        _exit(kill(parent, SIGUSR1));
    }
    EXPECT(call(&none) == -1 && errno == EINTR && got[SIGUSR1] == before + 3);
    EXPECT(waitpid(child, NULL, 0) == child);
    EXPECT(raise(SIGUSR1) == 0 && got[SIGUSR1] == before + 3);
    EXPECT(sigprocmask(SIG_SETMASK, &none, NULL) == 0 && got[SIGUSR1] == before + 4);
}

enum { MOMENTS = 500 };
static atomic_int turn;

static void *send_soon(void *p) {
    for (int i = 1; i <= MOMENTS; i++) {
        while (atomic_load(&turn) < i)
            sched_yield();
        for (volatile int k = i * 37 % 2000; k > 0; k--)
            continue;
        EXPECT(kill(getpid(), SIGUSR1) == 0);
    }
    return p;
}

/* Before the call, at its beginning, or while it waits. */
static void check_moments(int (*call)(const sigset_t *)) {
    sigset_t none = set_of(0), usr1 = set_of(SIGUSR1);
    EXPECT(sigprocmask(SIG_SETMASK, &usr1, NULL) == 0);
    int before = got[SIGUSR1];
    pthread_t t;
    atomic_store(&turn, 0);
    EXPECT(pthread_create(&t, NULL, send_soon, NULL) == 0);
    for (int i = 1; i <= MOMENTS; i++) {
        atomic_store(&turn, i);
        EXPECT(call(&none) == -1 && errno == EINTR && got[SIGUSR1] == before + i);
    }
    EXPECT(pthread_join(t, NULL) == 0 && sigprocmask(SIG_SETMASK, &none, NULL) == 0);
}

static int in_pselect(const sigset_t *mask) {
    static int never[2] = {-1, -1};
    fd_set sets[3], before[3];
    memset(sets, 0, sizeof sets);
    EXPECT(never[0] >= 0 || pipe(never) == 0);
    FD_SET(never[0], &sets[0]);
    memcpy(before, sets, sizeof sets);
    int r = pselect(FD_SETSIZE, &sets[0], &sets[1], &sets[2], NULL, mask), error = errno;
    /* An error leaves them as they were. */
    EXPECT(r != -1 || memcmp(before, sets, sizeof sets) == 0);
    errno = error;
    return r;
}

static int in_ppoll(const sigset_t *mask) {
    return ppoll(NULL, 0, NULL, mask);
}

static int in_epoll(const sigset_t *mask) {
    static int fd = -1;
    struct epoll_event e;
    if (fd < 0)
        fd = epoll_create1(0);
    return epoll_pwait(fd, &e, 1, -1, mask);
}

static int in_sigsuspend(const sigset_t *mask) {
    return sigsuspend(mask);
}

/* What is ready comes first, and a mask for the call blocks, too. */
static void check_ready(void) {
    int pipe_[2];
    sigset_t none = set_of(0), usr1 = set_of(SIGUSR1);
    EXPECT(pipe(pipe_) == 0 && write(pipe_[1], "x", 1) == 1);
    struct pollfd p = {.fd = pipe_[0], .events = POLLIN};
    EXPECT(sigprocmask(SIG_SETMASK, &usr1, NULL) == 0 && raise(SIGUSR1) == 0);
    int before = got[SIGUSR1];
    EXPECT(ppoll(&p, 1, NULL, &none) == 1 && got[SIGUSR1] == before && is_pending(SIGUSR1));
    EXPECT(sigprocmask(SIG_SETMASK, &none, NULL) == 0 && got[SIGUSR1] == before + 1);
    struct timespec soon = {0, 50000000};
    pthread_t t;
    EXPECT(pthread_create(&t, NULL, send_later, (void *)SIGUSR1) == 0);
    EXPECT(ppoll(NULL, 0, &soon, &usr1) == 0 || got[SIGUSR1] == before + 1);
    EXPECT(pthread_join(t, NULL) == 0 && got[SIGUSR1] == before + 2);
    close(pipe_[0]);
    close(pipe_[1]);
}

/* Signals with a queue come as often as they were sent, in order, with what was said. */
static void check_queue(void) {
    int n = SIGRTMIN + 1;
    sigset_t set = set_of(n);
    siginfo_t info;
    EXPECT(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    for (int i = 1; i <= 100; i++)
        EXPECT(sigqueue(getpid(), n, (union sigval){.sival_int = i}) == 0);
    for (int i = 1; i <= 10; i++)
        EXPECT(sigwaitinfo(&set, &info) == n && info.si_value.sival_int == i && info.si_code == SI_QUEUE &&
               info.si_pid == getpid());
    last_value = 0;
    EXPECT(got[n] == 0 && sigprocmask(SIG_UNBLOCK, &set, NULL) == 0);
    EXPECT(got[n] == 90 && in_order && last_value == 100);
    /* Others only once; thread and process have a queue each. */
    set = set_of(SIGUSR2);
    EXPECT(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    for (int i = 0; i < 3; i++)
        EXPECT(raise(SIGUSR2) == 0 && kill(getpid(), SIGUSR2) == 0);
    EXPECT(sigprocmask(SIG_UNBLOCK, &set, NULL) == 0 && got[SIGUSR2] == 2);
    /* Ignoring forgets. */
    EXPECT(sigprocmask(SIG_BLOCK, &set, NULL) == 0 && raise(SIGUSR2) == 0);
    EXPECT(signal(SIGUSR2, SIG_IGN) != SIG_ERR && !is_pending(SIGUSR2));
    EXPECT(sigprocmask(SIG_UNBLOCK, &set, NULL) == 0);
}

static void *wait_for(void *p) {
    sigset_t set = set_of((int)(long)p);
    siginfo_t info;
    EXPECT(sigwaitinfo(&set, &info) == (int)(long)p);
    return (void *)(long)info.si_code;
}

/* From outside, with who sent it; a handler for another signal interrupts. */
static void check_wait(void) {
    sigset_t set = set_of(SIGHUP), none = set_of(0);
    siginfo_t info;
    void *code;
    pthread_t t;
    struct timespec soon = {0, 1000000};
    EXPECT(sigprocmask(SIG_SETMASK, &set, NULL) == 0);
    pid_t parent = getpid(), child = fork();
    if (child == 0)
        _exit(kill(parent, SIGHUP));
    EXPECT(waitpid(child, NULL, 0) == child && is_pending(SIGHUP));
    EXPECT(sigtimedwait(&set, &info, &soon) == SIGHUP && info.si_pid == child && info.si_code == SI_USER);
    EXPECT(sigtimedwait(&set, &info, &soon) == -1 && errno == EAGAIN);
    EXPECT(pthread_create(&t, NULL, wait_for, (void *)SIGHUP) == 0);
    EXPECT(kill(getpid(), SIGHUP) == 0 && pthread_join(t, &code) == 0 && (long)code == SI_USER);
    EXPECT(pthread_create(&t, NULL, wait_for, (void *)SIGHUP) == 0);
    EXPECT(pthread_kill(t, SIGHUP) == 0 && pthread_join(t, &code) == 0 && (long)code == SI_USER);
    EXPECT(pthread_create(&t, NULL, send_later, (void *)SIGUSR1) == 0);
    EXPECT(sigwaitinfo(&set, &info) == -1 && errno == EINTR && pthread_join(t, NULL) == 0);
    EXPECT(sigprocmask(SIG_SETMASK, &none, NULL) == 0);
}

/* From outside, signals that threads usually bring about themselves. */
static void check_faults(void) {
    struct sigaction a = {.sa_sigaction = note, .sa_flags = SA_SIGINFO};
    static const int all[] = {SIGABRT, SIGSEGV, SIGPIPE, SIGTTIN};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        sigset_t set = set_of(all[i]), none = set_of(0);
        pid_t parent = getpid(), child;
        EXPECT(sigaction(all[i], &a, NULL) == 0 && sigprocmask(SIG_SETMASK, &set, NULL) == 0);
        if ((child = fork()) == 0)
            _exit(kill(parent, all[i]));
        while (got[all[i]] == 0)
            EXPECT(sigsuspend(&none) == -1 && errno == EINTR);
        EXPECT(got[all[i]] == 1 && seen.si_code == SI_USER && seen.si_pid == child);
        EXPECT(waitpid(child, NULL, 0) == child && sigprocmask(SIG_SETMASK, &none, NULL) == 0);
    }
}

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
static void plain(int n) {
    sigset_t now;
    EXPECT(sigprocmask(SIG_SETMASK, NULL, &now) == 0 && sigismember(&now, n));
    got[n]++;
}

/* The old ways. */
static void check_old(void) {
    got[SIGUSR1] = 0;
    EXPECT(sigset(SIGUSR1, plain) != SIG_ERR && sigset(SIGUSR1, SIG_HOLD) == plain && raise(SIGUSR1) == 0);
    EXPECT(got[SIGUSR1] == 0 && is_pending(SIGUSR1) && sigset(SIGUSR1, SIG_HOLD) == SIG_HOLD);
    EXPECT(sigrelse(SIGUSR1) == 0 && got[SIGUSR1] == 1 && sighold(SIGUSR1) == 0 && raise(SIGUSR1) == 0);
    EXPECT(sigset(SIGUSR1, plain) == SIG_HOLD && got[SIGUSR1] == 2 && sigset(SIGUSR1, SIG_DFL) == plain);
    EXPECT(sigignore(SIGUSR1) == 0 && raise(SIGUSR1) == 0 && got[SIGUSR1] == 2);
}

/* The kernel's view of a process, which says whether it blocks the signal. Not through a shell: some forget what is blocked. */
#define PROGRAM "awk", "/^SigBlk/ { exit substr($2, length($2) - 2, 1) ~ /[89a-f]/ ? 0 : 1 }", "/proc/self/status"

static int status_of(pid_t child) {
    int status;
    EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* Processes inherit what the thread blocks, and nothing else. */
static void check_inherited(void) {
    for (volatile int blocked = 0; blocked < 2; blocked++) {
        sigset_t set = set_of(blocked ? SIGUSR2 : 0);
        char *argv[] = {PROGRAM, NULL};
        pid_t child;
        EXPECT(sigprocmask(SIG_SETMASK, &set, NULL) == 0);
        EXPECT(posix_spawnp(&child, "awk", NULL, NULL, argv, environ) == 0 && status_of(child) == !blocked);
        FILE *f = popen("exit 3", "r");
        EXPECT(f != NULL && pclose(f) == 3 << 8 && system("exit 4") == 4 << 8);
        if ((child = fork()) == 0)
            _exit(execl("/usr/bin/awk", PROGRAM, (char *)NULL));
        EXPECT(status_of(child) == !blocked);
        if ((child = vfork()) == 0)
            _exit(execle("/usr/bin/awk", PROGRAM, (char *)NULL, environ));
        EXPECT(status_of(child) == !blocked);
        /* What the child of a vfork does to its mask is its own affair. */
        if ((child = vfork()) == 0) {
            sigset_t none = set_of(0);
            sigprocmask(SIG_SETMASK, &none, NULL);
            signal(SIGUSR1, SIG_DFL);
            _exit(execlp("awk", PROGRAM, (char *)NULL));
        }
        sigset_t now;
        EXPECT(status_of(child) == 1 && sigprocmask(SIG_BLOCK, NULL, &now) == 0);
        EXPECT(sigismember(&now, SIGUSR2) == blocked);
    }
    sigset_t none = set_of(0);
    EXPECT(sigprocmask(SIG_SETMASK, &none, NULL) == 0);
}

int main(void) {
    struct sigaction a = {.sa_sigaction = note, .sa_flags = SA_SIGINFO};
    for (int n = SIGRTMIN; n <= SIGRTMIN + 1; n++)
        EXPECT(sigaction(n, &a, NULL) == 0);
    EXPECT(sigaction(SIGUSR1, &a, NULL) == 0 && sigaction(SIGUSR2, &a, NULL) == 0);
    check_call(in_pselect);
    check_call(in_ppoll);
    check_call(in_epoll);
    check_call(in_sigsuspend);
    check_moments(in_pselect);
    check_moments(in_ppoll);
    check_moments(in_epoll);
    check_moments(in_sigsuspend);
    check_ready();
    check_queue();
    check_wait();
    check_faults();
    check_old();
    check_inherited();
    puts("masks: ok");
    return 0;
}
