/* Signals: handlers, masks, sigwait, calls that are interrupted. */
#define _GNU_SOURCE
#include "preempted.h"

#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <unistd.h>

static volatile sig_atomic_t got[65];
static sem_t posted;
static int stop;

static void note(int n) {
    int saved = errno;
    got[n]++;
    sem_post(&posted);
    errno = saved;
}

static void await(int n, int times) {
    for (int i = 0; i < 2000 && got[n] < times; i++)
        usleep(1000);
    EXPECT(got[n] >= times);
}

/* Has the call that waits returned? */
static int returned;

/* A handler may run before the call has begun, which then waits on: so until it has returned, one signal after the other. */
static void *send_to_main(void *p) {
    int n = (int)(long)p;
    while (!__atomic_load_n(&returned, __ATOMIC_ACQUIRE)) {
        usleep(20000);
        int before = got[n];
        EXPECT(kill(getpid(), n) == 0);
        await(n, before + 1);
        for (int i = 0; i < 200 && !__atomic_load_n(&returned, __ATOMIC_ACQUIRE); i++)
            usleep(1000);
    }
    return NULL;
}

static int set_returned(void) {
    __atomic_store_n(&returned, 1, __ATOMIC_RELEASE);
    return 1;
}

static void *wait_for_usr2(void *p) {
    int n;
    EXPECT(sigwait(p, &n) == 0 && n == SIGUSR2);
    return p;
}

int main(void) {
    pthread_t burner[2], t;
    sigset_t set, old;
    struct sigaction a = {.sa_handler = note}, seen;
    EXPECT(sem_init(&posted, 0, 0) == 0);
    /* Blocked before any thread exists, for one that waits: the usual way. */
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    EXPECT(pthread_sigmask(SIG_BLOCK, &set, &old) == 0 && !sigismember(&old, SIGUSR2));
    EXPECT(pthread_create(&t, NULL, wait_for_usr2, &set) == 0);
    for (int i = 0; i < 2; i++)
        EXPECT(pthread_create(&burner[i], NULL, burn, &stop) == 0);
    EXPECT(kill(getpid(), SIGUSR2) == 0 && pthread_join(t, NULL) == 0);

    EXPECT(sigaction(SIGUSR1, &a, NULL) == 0 && sigaction(SIGUSR1, NULL, &seen) == 0 && seen.sa_handler == note);
    EXPECT(raise(SIGUSR1) == 0 && got[SIGUSR1] == 1);
    for (int i = 0; i < 20; i++) {
        int before = got[SIGUSR1];
        EXPECT(kill(getpid(), SIGUSR1) == 0);
        await(SIGUSR1, before + 1);
    }
    /* A call that waits is interrupted. */
    EXPECT(pthread_create(&t, NULL, send_to_main, (void *)SIGUSR1) == 0);
    EXPECT(poll(NULL, 0, 60000) == -1 && errno == EINTR && set_returned() && pthread_join(t, NULL) == 0);
    returned = 0;
    EXPECT(pthread_create(&t, NULL, send_to_main, (void *)SIGUSR1) == 0);
    EXPECT(sleep(60) > 0 && set_returned() && pthread_join(t, NULL) == 0);

    /* Blocked: pending, then delivered. */
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    int before = got[SIGUSR1];
    EXPECT(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0 && pthread_kill(pthread_self(), SIGUSR1) == 0);
    usleep(5000);
    EXPECT(got[SIGUSR1] == before && sigpending(&old) == 0 && sigismember(&old, SIGUSR1));
    EXPECT(pthread_sigmask(SIG_UNBLOCK, &set, NULL) == 0);
    EXPECT(got[SIGUSR1] == before + 1);

    struct timespec soon = {0, 3000000};
    EXPECT(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0 && sigtimedwait(&set, NULL, &soon) == -1 && errno == EAGAIN);
    EXPECT(pthread_kill(burner[0], 0) == 0);
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < 2; i++)
        EXPECT(pthread_join(burner[i], NULL) == 0);
    puts("signals: ok");
    return 0;
}
