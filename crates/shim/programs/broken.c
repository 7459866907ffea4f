/* Signals that a thread's own call brings about: on that thread, before the call returns, and only if it may. */
#define _GNU_SOURCE
#include "check.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum kind { SOCKET, PIPE, PIPE_THAT_DOES_NOT_WAIT, FILE_THAT_IS_FULL, KINDS };

static __thread volatile sig_atomic_t hits;

static void note(int n) {
    (void)n;
    hits++;
}

static void set_handler(int n, void (*f)(int)) {
    struct sigaction action = {.sa_handler = f};
    EXPECT(sigaction(n, &action, NULL) == 0);
}

/* A descriptor to which nothing can be written. */
static int broken(enum kind kind) {
    int fds[2];
    if (kind == FILE_THAT_IS_FULL) {
        fds[1] = memfd_create("full", 0);
        EXPECT(fds[1] >= 0 && lseek(fds[1], 1 << 20, SEEK_SET) == 1 << 20);
        return fds[1];
    }
    EXPECT((kind == SOCKET ? socketpair(AF_UNIX, SOCK_STREAM, 0, fds) : pipe(fds)) == 0);
    if (kind == PIPE_THAT_DOES_NOT_WAIT)
        EXPECT(fcntl(fds[1], F_SETFL, O_NONBLOCK) == 0);
    close(fds[0]);
    return fds[1];
}

static char much[1 << 20];

static void breaks(enum kind kind, size_t size) {
    int fd = broken(kind), full = kind == FILE_THAT_IS_FULL;
    int n = full ? SIGXFSZ : SIGPIPE, error = full ? EFBIG : EPIPE;
    int before = hits;
    EXPECT(write(fd, much, size) == -1 && errno == error && hits == before + 1);
    /* Blocked, it waits, and is not for others. */
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, n);
    EXPECT(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
    EXPECT(write(fd, much, size) == -1 && errno == error && hits == before + 1);
    struct timespec now = {0, 0};
    siginfo_t info;
    EXPECT(sigtimedwait(&set, &info, &now) == n && info.si_pid == getpid());
    EXPECT(sigtimedwait(&set, &info, &now) == -1 && errno == EAGAIN);
    EXPECT(write(fd, much, size) == -1 && errno == error && hits == before + 1);
    EXPECT(pthread_sigmask(SIG_UNBLOCK, &set, NULL) == 0 && hits == before + 2);
    if (kind == SOCKET)
        EXPECT(send(fd, much, size, MSG_NOSIGNAL) == -1 && errno == EPIPE && hits == before + 2);
    close(fd);
}

static void *break_all(void *p) {
    for (int i = 0; i < 20; i++)
        for (enum kind kind = 0; kind < KINDS; kind++) {
            breaks(kind, 1);
            breaks(kind, sizeof much);
        }
    return p;
}

/* Without an action of its own it ends the process, or nothing happens. */
static void *ignored(void *p) {
    int fd = broken(PIPE_THAT_DOES_NOT_WAIT);
    for (int i = 0; i < 20; i++)
        EXPECT(write(fd, much, sizeof much) == -1 && errno == EPIPE);
    close(fd);
    return p;
}

static void on_threads(void *(*f)(void *)) {
    pthread_t t[3];
    for (int i = 0; i < 3; i++)
        EXPECT(pthread_create(&t[i], NULL, f, NULL) == 0);
    f(NULL);
    for (int i = 0; i < 3; i++)
        EXPECT(pthread_join(t[i], NULL) == 0);
}

int main(void) {
    struct rlimit limit = {1 << 20, RLIM_INFINITY};
    EXPECT(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    set_handler(SIGPIPE, note);
    set_handler(SIGXFSZ, note);
    on_threads(break_all);
    set_handler(SIGPIPE, SIG_IGN);
    on_threads(ignored);
    puts("broken: ok");
    return 0;
}
