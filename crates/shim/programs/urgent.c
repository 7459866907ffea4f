/* SIGURG, by which the runtime preempts, in a program that uses it: from all who can send it, while threads are preempted. */
#define _GNU_SOURCE
#include "preempted.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t got, code, sender, value;
static pthread_t handled_by;
static int stop;

static void note(int n, siginfo_t *info, void *context) {
    EXPECT(n == SIGURG && context != NULL);
    code = info->si_code;
    sender = info->si_pid;
    value = info->si_value.sival_int;
    handled_by = pthread_self();
    got++;
}

static void await(int times) {
    for (int i = 0; i < 20000 && got < times; i++)
        usleep(1000);
    EXPECT(got >= times);
}

static void check_own(pthread_t other) {
    got = 0;
    EXPECT(kill(getpid(), SIGURG) == 0);
    await(1);
    EXPECT(code == SI_USER && sender == getpid() && raise(SIGURG) == 0 && got == 2 && code == SI_TKILL);
    EXPECT(pthread_kill(other, SIGURG) == 0);
    await(3);
    EXPECT(pthread_equal(handled_by, other) && sigqueue(getpid(), SIGURG, (union sigval){.sival_int = 7}) == 0);
    await(4);
    EXPECT(code == SI_QUEUE && value == 7);
    /* A timer of the program's. */
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGURG, .sigev_value.sival_int = 8};
    struct itimerspec soon = {.it_value.tv_nsec = 100000};
    timer_t timer;
    EXPECT(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0 && timer_settime(timer, 0, &soon, NULL) == 0);
    await(5);
    EXPECT(code == SI_TIMER && value == 8 && timer_delete(timer) == 0);
}

/* Urgent data. */
static void check_socket(void) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM, 0), to = socket(AF_INET, SOCK_STREAM, 0), from;
    char byte;
    EXPECT(bind(listener, (struct sockaddr *)&at, size) == 0 && listen(listener, 1) == 0);
    EXPECT(getsockname(listener, (struct sockaddr *)&at, &size) == 0);
    EXPECT(connect(to, (struct sockaddr *)&at, size) == 0 && (from = accept(listener, NULL, NULL)) >= 0);
    EXPECT(fcntl(from, F_SETOWN, getpid()) == 0);
    for (int i = 0; i < 20; i++) {
        got = 0;
        EXPECT(send(to, "u", 1, MSG_OOB) == 1);
        await(1);
        EXPECT(code == SI_KERNEL && recv(from, &byte, 1, MSG_OOB) == 1 && byte == 'u');
    }
    close(listener);
    close(to);
    close(from);
}

/* From another process: one by one, in masses, and to end a call. */
static void check_others(void) {
    pid_t parent = getpid(), child;
    for (int i = 0; i < 5; i++) {
        got = 0;
        if ((child = fork()) == 0)
            _exit(kill(parent, SIGURG));
        await(1);
        EXPECT(code == SI_USER && sender == child && waitpid(child, NULL, 0) == child);
    }
    got = 0;
    if ((child = fork()) == 0) {
        for (int i = 0; i < 500; i++) {
            kill(parent, SIGURG);
            usleep(20);
        }
        _exit(0);
    }
    expect_preemption();
    int status;
    while (waitpid(child, &status, 0) != child)
        EXPECT(errno == EINTR);
    await(1);
    int pipe_[2];
    char byte;
    EXPECT(pipe(pipe_) == 0);
    if ((child = fork()) == 0) {
        /* Until the parent, which may not have begun to wait, has been interrupted. */
        close(pipe_[1]);
        while (kill(parent, SIGURG) == 0)
            usleep(20000);
        _exit(0);
    }
    EXPECT(read(pipe_[0], &byte, 1) == -1 && errno == EINTR && kill(child, SIGKILL) == 0);
    while (waitpid(child, &status, 0) != child)
        EXPECT(errno == EINTR);
    close(pipe_[0]);
    close(pipe_[1]);
    /* Blocked, and waited for. */
    sigset_t urgent;
    siginfo_t info;
    sigemptyset(&urgent);
    sigaddset(&urgent, SIGURG);
    EXPECT(pthread_sigmask(SIG_BLOCK, &urgent, NULL) == 0);
    pthread_t blocks;
    EXPECT(pthread_create(&blocks, NULL, burn, &stop) == 0);
    got = 0;
    EXPECT(pthread_kill(blocks, SIGURG) == 0 && raise(SIGURG) == 0);
    EXPECT(sigwaitinfo(&urgent, &info) == SIGURG && got == 0);
    expect_preemption();
    EXPECT(pthread_sigmask(SIG_UNBLOCK, &urgent, NULL) == 0);
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    EXPECT(pthread_join(blocks, NULL) == 0);
    __atomic_store_n(&stop, 0, __ATOMIC_RELAXED);
}

static void check(int burners) {
    pthread_t burner[4];
    stop = 0;
    for (int i = 0; i < burners; i++)
        EXPECT(pthread_create(&burner[i], NULL, burn, &stop) == 0);
    check_own(burners > 0 ? burner[0] : pthread_self());
    check_socket();
    expect_preemption();
    check_others();
    stop = 1;
    for (int i = 0; i < burners; i++)
        EXPECT(pthread_join(burner[i], NULL) == 0);
}

int main(int argc, char **argv) {
    int burners = argc > 1 ? atoi(argv[1]) : 2;
    struct sigaction a = {.sa_sigaction = note, .sa_flags = SA_SIGINFO}, seen;
    EXPECT(sigaction(SIGURG, NULL, &seen) == 0 && seen.sa_handler == SIG_DFL);
    expect_preemption();
    EXPECT(sigaction(SIGURG, &a, NULL) == 0);
    check(burners);
    /* The child of a fork has its handler, before it has threads and after. */
    pid_t child = fork();
    if (child == 0) {
        EXPECT(sigaction(SIGURG, NULL, &seen) == 0 && seen.sa_sigaction == note);
        got = 0;
        EXPECT(raise(SIGURG) == 0 && got == 1 && kill(getpid(), SIGURG) == 0 && got == 2);
        check(burners);
        _exit(0);
    }
    int status;
    /* The last of those that came in masses may have been on its way. */
    while (waitpid(child, &status, 0) != child)
        EXPECT(errno == EINTR);
    EXPECT(status == 0);
    /* Ignored, and forgotten. */
    EXPECT(signal(SIGURG, SIG_IGN) != SIG_ERR && raise(SIGURG) == 0);
    got = 0;
    expect_preemption();
    EXPECT(signal(SIGURG, SIG_DFL) == SIG_IGN && raise(SIGURG) == 0 && kill(getpid(), SIGURG) == 0 && got == 0);
    expect_preemption();
    puts("urgent: ok");
    return 0;
}
