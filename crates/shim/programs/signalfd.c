/* Signals that are read from a file. */
#define _GNU_SOURCE
#include "check.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

static int file;
static volatile sig_atomic_t calls;

static void note(int n) {
    calls += n == SIGUSR1;
}

static int is_ready(int ms) {
    struct pollfd p = {.fd = file, .events = POLLIN};
    return poll(&p, 1, ms) == 1 && p.revents == POLLIN;
}

static struct signalfd_siginfo next(void) {
    struct signalfd_siginfo info;
    EXPECT(read(file, &info, sizeof info) == sizeof info);
    return info;
}

static int is_pending(int n) {
    sigset_t set;
    EXPECT(sigpending(&set) == 0);
    return sigismember(&set, n);
}

static void *read_one(void *p) {
    *(struct signalfd_siginfo *)p = next();
    return p;
}

static void by_another_process(int n) {
    pid_t child = fork();
    if (child == 0)
        _exit(kill(getppid(), n) != 0);
    int status;
    EXPECT(child > 0 && waitpid(child, &status, 0) == child && status == 0);
}

int main(void) {
    sigset_t set, one;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGRTMIN);
    sigaddset(&set, SIGCHLD);
    EXPECT(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
    struct sigaction a = {.sa_handler = note};
    EXPECT(sigaction(SIGUSR1, &a, NULL) == 0);

    /* What was pending before. */
    EXPECT(kill(getpid(), SIGUSR1) == 0);
    file = signalfd(-1, &set, SFD_CLOEXEC);
    EXPECT(file >= 0 && is_ready(10000) && next().ssi_signo == SIGUSR1 && !is_ready(0));

    /* From the process itself, with a value, and from another one, of which there is news, too. */
    EXPECT(kill(getpid(), SIGUSR1) == 0 && is_pending(SIGUSR1) && is_ready(10000));
    EXPECT(next().ssi_pid == (uint32_t)getpid() && !is_pending(SIGUSR1));
    for (int i = 1; i <= 2; i++)
        EXPECT(sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = i}) == 0);
    for (int i = 1; i <= 2; i++)
        EXPECT(next().ssi_int == i);
    by_another_process(SIGRTMIN);
    for (int seen = 0; seen != 3;) {
        struct signalfd_siginfo info = next();
        EXPECT(info.ssi_signo == (uint32_t)SIGRTMIN || info.ssi_signo == SIGCHLD);
        seen |= info.ssi_signo == SIGCHLD ? 1 : 2;
    }

    /* A thread that waits for the file. */
    struct signalfd_siginfo read = {0};
    pthread_t reader;
    EXPECT(pthread_create(&reader, NULL, read_one, &read) == 0);
    usleep(10000);
    EXPECT(kill(getpid(), SIGUSR1) == 0 && pthread_join(reader, NULL) == 0 && read.ssi_signo == SIGUSR1);

    /* By epoll. */
    int all = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    EXPECT(all >= 0 && epoll_ctl(all, EPOLL_CTL_ADD, file, &event) == 0);
    EXPECT(epoll_wait(all, &event, 1, 0) == 0 && kill(getpid(), SIGUSR1) == 0);
    EXPECT(epoll_wait(all, &event, 1, 10000) == 1 && next().ssi_signo == SIGUSR1);

    /* Who waits for one, or allows it, takes it. */
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    struct timespec limit = {.tv_sec = 10};
    EXPECT(kill(getpid(), SIGUSR1) == 0 && sigtimedwait(&one, NULL, &limit) == SIGUSR1 && !is_ready(0));
    EXPECT(kill(getpid(), SIGUSR1) == 0 && pthread_sigmask(SIG_UNBLOCK, &one, NULL) == 0 && calls == 1);
    EXPECT(kill(getpid(), SIGUSR1) == 0 && calls == 2 && !is_ready(0));
    EXPECT(pthread_sigmask(SIG_BLOCK, &one, NULL) == 0 && kill(getpid(), SIGUSR1) == 0);
    EXPECT(is_ready(10000) && next().ssi_signo == SIGUSR1 && calls == 2);
    return 0;
}
