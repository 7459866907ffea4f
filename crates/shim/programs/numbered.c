/* Signals for the main thread by its number, from outside and from the kernel. */
#define _GNU_SOURCE
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

static pthread_t main_thread;
static atomic_int calls, elsewhere, ends;

static void note(int n) {
    (void)n;
    if (!pthread_equal(pthread_self(), main_thread))
        elsewhere++;
    calls++;
}

static void nap(void) {
    struct timespec ms = {.tv_nsec = 1000000};
    nanosleep(&ms, NULL);
}

/* All signals are open here, and it would take those of the process. */
static void *wait_for_the_end(void *p) {
    while (!ends)
        nap();
    return p;
}

static void by_another_process(int n) {
    pid_t child = fork();
    if (child == 0)
        _exit(syscall(SYS_tgkill, getppid(), getppid(), n) != 0);
    int status;
    EXPECT(child > 0);
    while (waitpid(child, &status, 0) < 0)
        EXPECT(errno == EINTR);
    EXPECT(status == 0);
}

static void expect_calls(int n) {
    for (int i = 0; i < 10000 && calls < n; i++)
        nap();
    EXPECT(calls == n && elsewhere == 0);
}

int main(void) {
    main_thread = pthread_self();
    struct sigaction a = {.sa_handler = note};
    EXPECT(sigaction(SIGUSR1, &a, NULL) == 0 && sigaction(SIGIO, &a, NULL) == 0);
    pthread_t other;
    EXPECT(pthread_create(&other, NULL, wait_for_the_end, NULL) == 0);

    by_another_process(SIGUSR1);
    expect_calls(1);

    /* While the main thread blocks it nobody has it. */
    sigset_t set, pending;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    EXPECT(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
    by_another_process(SIGUSR1);
    do {
        nap();
        EXPECT(sigpending(&pending) == 0);
    } while (!sigismember(&pending, SIGUSR1));
    for (int i = 0; i < 20; i++)
        nap();
    EXPECT(calls == 1 && elsewhere == 0);
    EXPECT(pthread_sigmask(SIG_UNBLOCK, &set, NULL) == 0);
    expect_calls(2);

    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1};
    event.sigev_notify_thread_id = gettid();
    timer_t timer;
    EXPECT(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    struct itimerspec once = {.it_value.tv_nsec = 5000000};
    EXPECT(timer_settime(timer, 0, &once, NULL) == 0);
    expect_calls(3);
    EXPECT(timer_delete(timer) == 0);

    int ends_of[2];
    EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, ends_of) == 0);
    struct f_owner_ex owner = {.type = F_OWNER_TID, .pid = gettid()};
    EXPECT(fcntl(ends_of[0], F_SETOWN_EX, &owner) == 0);
    EXPECT(fcntl(ends_of[0], F_SETFL, O_ASYNC) == 0);
    EXPECT(write(ends_of[1], "x", 1) == 1);
    expect_calls(4);

    ends = 1;
    EXPECT(pthread_join(other, NULL) == 0);
    return 0;
}
