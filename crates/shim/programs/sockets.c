/* Socket calls that wait: their time limits, parts, signals and cancellation. */
#define _GNU_SOURCE
#include "check.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

static struct sockaddr_in address;

static int listener(int backlog) {
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = 0;
    EXPECT(bind(fd, (struct sockaddr *)&address, len) == 0 && listen(fd, backlog) == 0);
    EXPECT(getsockname(fd, (struct sockaddr *)&address, &len) == 0);
    return fd;
}

static int dial(int fd) { return connect(fd, (struct sockaddr *)&address, sizeof address); }

static int tcp(int flags) { return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0); }

static void limit(int fd, int option, int ms) {
    struct timeval t = {ms / 1000, ms % 1000 * 1000};
    EXPECT(setsockopt(fd, SOL_SOCKET, option, &t, sizeof t) == 0);
}

static long ms_since(struct timespec t) {
    struct timespec now = in_ms(CLOCK_MONOTONIC, 0);
    return (now.tv_sec - t.tv_sec) * 1000 + (now.tv_nsec - t.tv_nsec) / 1000000;
}

/* The call ends after 30 ms, and not before, with this error. */
#define ENDS_AFTER_30_MS(call, error)                                                                                  \
    do {                                                                                                               \
        struct timespec before = in_ms(CLOCK_MONOTONIC, 0);                                                            \
        EXPECT((call) == -1 && errno == (error) && ms_since(before) >= 29);                                            \
    } while (0)

/* Fills the queue of a listener, so that the next connection waits. */
static int fill_queue(void) {
    int last = -1;
    for (int i = 0; i < 64; i++) {
        struct pollfd f = {.fd = tcp(SOCK_NONBLOCK), .events = POLLOUT};
        EXPECT(dial(f.fd) == -1 && errno == EINPROGRESS);
        last = f.fd;
        if (poll(&f, 1, 100) == 0)
            break;
    }
    return last;
}

static void limits(void) {
    int s[2], fd = listener(0), type = 0;
    socklen_t len = sizeof type;
    char data[1 << 16] = {0};
    limit(fd, SO_RCVTIMEO, 30);
    ENDS_AFTER_30_MS(accept(fd, NULL, NULL), EAGAIN);
    ENDS_AFTER_30_MS(accept4(fd, NULL, NULL, SOCK_CLOEXEC), EAGAIN);
    EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, s) == 0);
    limit(s[0], SO_RCVTIMEO, 30);
    limit(s[0], SO_SNDTIMEO, 30);
    ENDS_AFTER_30_MS(recv(s[0], data, 1, 0), EAGAIN);
    ENDS_AFTER_30_MS(read(s[0], data, 1), EAGAIN);
    EXPECT(write(s[1], "123", 3) == 3 && recv(s[0], data, 8, MSG_WAITALL) == 3);
    /* A part goes, then nothing. */
    long part = 0, n;
    while ((n = send(s[0], data, sizeof data, 0)) == sizeof data)
        part += n;
    if (n == -1)
        EXPECT(errno == EAGAIN && part > 0);
    else
        EXPECT(n > 0 && n < (long)sizeof data);
    ENDS_AFTER_30_MS(send(s[0], data, sizeof data, 0), EAGAIN);
    ENDS_AFTER_30_MS(write(s[0], data, sizeof data), EAGAIN);
    close(s[0]);
    close(s[1]);
    int waiting = fill_queue(), late = tcp(0);
    limit(late, SO_SNDTIMEO, 30);
    ENDS_AFTER_30_MS(dial(late), EINPROGRESS);
    ENDS_AFTER_30_MS(dial(late), EALREADY);
    close(late);
    close(waiting);
    close(fd);
    /* Refused: nobody listens there. */
    fd = listener(0);
    EXPECT(shutdown(fd, SHUT_RDWR) == 0);
    int none = tcp(0);
    EXPECT(dial(none) == -1 && errno == ECONNREFUSED);
    EXPECT(getsockopt(none, SOL_SOCKET, SO_ERROR, &type, &len) == 0 && type == 0);
    EXPECT(!(fcntl(none, F_GETFL) & O_NONBLOCK));
    close(none);
    close(fd);
    /* Connected, and only once. */
    fd = listener(4);
    int one = tcp(0);
    EXPECT(dial(one) == 0 && dial(one) == -1 && errno == EISCONN && !(fcntl(one, F_GETFL) & O_NONBLOCK));
    int two = accept(fd, NULL, NULL);
    EXPECT(two >= 0 && send(two, "ab", 2, 0) == 2 && recv(one, data, 2, MSG_WAITALL) == 2);
    close(one);
    close(two);
    close(fd);
}

static int ends[2];

static void *feed(void *p) {
    usleep(10000);
    EXPECT(write(ends[1], "12345", 5) == 5);
    usleep(10000);
    if (p)
        EXPECT(shutdown(ends[1], SHUT_WR) == 0);
    else
        EXPECT(write(ends[1], "67890", 5) == 5);
    return NULL;
}

/* MSG_WAITALL: all of it, or what there was before the end. */
static void parts(void) {
    for (long shut = 0; shut < 2; shut++) {
        for (int how = 0; how < 3; how++) {
            char data[16] = {0};
            struct iovec v[2] = {{data, 3}, {data + 3, 7}};
            struct msghdr m = {.msg_iov = v, .msg_iovlen = how};
            v[0].iov_len = how == 1 ? 10 : 3;
            pthread_t t;
            EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
            EXPECT(pthread_create(&t, NULL, feed, (void *)shut) == 0);
            long n = how ? recvmsg(ends[0], &m, MSG_WAITALL) : recv(ends[0], data, 10, MSG_WAITALL);
            EXPECT(n == (shut ? 5 : 10) && memcmp(data, "1234567890", n) == 0);
            EXPECT(pthread_join(t, NULL) == 0);
            close(ends[0]);
            close(ends[1]);
        }
    }
    /* A message is whole anyway. */
    char data[16];
    EXPECT(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) == 0 && send(ends[1], "abc", 3, 0) == 3);
    EXPECT(recv(ends[0], data, 10, MSG_WAITALL) == 3);
    close(ends[0]);
    close(ends[1]);
}

static int handled, entered;
static long result;
static int error;

static void count(int signal) {
    (void)signal;
    __atomic_fetch_add(&handled, 1, __ATOMIC_SEQ_CST);
}

static void *call(void *p) {
    int how = (int)(long)p;
    char c;
    struct pollfd f = {.fd = ends[0], .events = POLLIN};
    struct epoll_event e = {.events = EPOLLIN};
    fd_set set;
    FD_ZERO(&set);
    FD_SET(ends[0], &set);
    int ep = epoll_create1(EPOLL_CLOEXEC);
    EXPECT(epoll_ctl(ep, EPOLL_CTL_ADD, ends[0], &e) == 0);
    __atomic_store_n(&entered, 1, __ATOMIC_SEQ_CST);
    switch (how) {
    case 0: result = recv(ends[0], &c, 1, 0); break;
    case 1: result = read(ends[0], &c, 1); break;
    case 2: result = poll(&f, 1, -1); break;
    case 3: result = epoll_wait(ep, &e, 1, 60000); break;
    case 4: result = select(ends[0] + 1, &set, NULL, NULL, NULL); break;
    default: result = accept(ends[0], NULL, NULL);
    }
    error = errno;
    close(ep);
    __atomic_store_n(&entered, 2, __ATOMIC_SEQ_CST);
    return NULL;
}

/* Handlers end calls, or let them go on if they say SA_RESTART: not those that wait for events, nor those with a limit. */
static void interrupted(void) {
    for (int how = 0; how < 6; how++) {
        for (int kind = 0; kind < 3; kind++) {
            int restart = kind > 0, limited = kind == 2;
            int goes_on = restart && !limited && (how < 2 || how == 5);
            if (limited && how >= 2 && how < 5)
                continue;
            struct sigaction action = {.sa_handler = count, .sa_flags = restart ? SA_RESTART : 0};
            EXPECT(sigaction(SIGUSR1, &action, NULL) == 0);
            if (how == 5)
                ends[0] = listener(4);
            else
                EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
            if (limited)
                limit(ends[0], SO_RCVTIMEO, 60000);
            pthread_t t;
            handled = entered = 0;
            EXPECT(pthread_create(&t, NULL, call, (void *)(long)how) == 0);
            while (!__atomic_load_n(&entered, __ATOMIC_SEQ_CST))
                usleep(100);
            /* Over and over: it may not wait yet. */
            for (int i = 0; goes_on ? i < 5 : __atomic_load_n(&entered, __ATOMIC_SEQ_CST) < 2; i++) {
                int seen = __atomic_load_n(&handled, __ATOMIC_SEQ_CST);
                EXPECT(pthread_kill(t, SIGUSR1) == 0);
                while (goes_on && __atomic_load_n(&handled, __ATOMIC_SEQ_CST) == seen)
                    usleep(100);
                usleep(1000);
            }
            int one = -1;
            if (goes_on) {
                EXPECT(__atomic_load_n(&entered, __ATOMIC_SEQ_CST) == 1);
                if (how == 5)
                    EXPECT(dial(one = tcp(0)) == 0);
                else
                    EXPECT(write(ends[1], "x", 1) == 1);
            }
            EXPECT(pthread_join(t, NULL) == 0);
            EXPECT(goes_on ? result > 0 : result == -1 && error == EINTR);
            close(ends[0]);
            close(how == 5 ? one : ends[1]);
            if (how == 5 && goes_on)
                close((int)result);
        }
    }
}

static int full = -1;

static void *wait_for_ever(void *p) {
    char c;
    struct pollfd f = {.fd = ends[0], .events = POLLIN};
    switch ((int)(long)p) {
    case 0: recv(ends[0], &c, 1, 0); break;
    case 1: accept(ends[0], NULL, NULL); break;
    case 2: dial(full); break;
    case 3: poll(&f, 1, -1); break;
    case 4: recv(ends[0], &c, 1, MSG_WAITALL); break;
    }
    return NULL;
}

static void cancelled(void) {
    for (long how = 0; how < 5; how++) {
        int waiting = -1;
        if (how == 1 || how == 2)
            ends[0] = listener(0), ends[1] = -1;
        else
            EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
        if (how == 2)
            waiting = fill_queue(), full = tcp(0);
        pthread_t t;
        void *r;
        EXPECT(pthread_create(&t, NULL, wait_for_ever, (void *)how) == 0);
        usleep(how % 2 * 5000);
        EXPECT(pthread_cancel(t) == 0 && pthread_join(t, &r) == 0 && r == PTHREAD_CANCELED);
        /* The thread has left nothing behind. */
        EXPECT(close(ends[0]) == 0);
        close(ends[1]);
        close(waiting);
        close(full);
        full = -1;
    }
}

/* A full queue of messages, and of connections: nobody says when there is room for those that are not connected. */
static void queues(void) {
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "quaver-sockets-%d", getpid());
    int in = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), out = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    EXPECT(bind(in, (struct sockaddr *)&name, sizeof name) == 0);
    limit(out, SO_SNDTIMEO, 30);
    long n;
    while ((n = sendto(out, "x", 1, 0, (struct sockaddr *)&name, sizeof name)) == 1) {
    }
    EXPECT(n == -1 && errno == EAGAIN);
    ENDS_AFTER_30_MS(sendto(out, "x", 1, 0, (struct sockaddr *)&name, sizeof name), EAGAIN);
    close(in);
    close(out);
    in = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT(bind(in, (struct sockaddr *)&name, sizeof name) == 0 && listen(in, 0) == 0);
    int fd[16], i = 0;
    do {
        EXPECT(i < 16);
        fd[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        limit(fd[i], SO_SNDTIMEO, 30);
    } while (connect(fd[i++], (struct sockaddr *)&name, sizeof name) == 0);
    EXPECT(errno == EAGAIN);
    while (i > 0)
        close(fd[--i]);
    close(in);
}

/* What will never have a connection says so at once, whatever its flags. */
static void not_accepted(int type, int domain, int error) {
    for (int flags = 0; flags <= SOCK_NONBLOCK; flags += SOCK_NONBLOCK) {
        int fd = socket(domain, type | flags, 0);
        EXPECT(fd >= 0 && accept(fd, NULL, NULL) == -1 && errno == error);
        EXPECT(close(fd) == 0);
    }
}

static void never_accepted(void) {
    not_accepted(SOCK_STREAM, AF_INET, EINVAL);
    not_accepted(SOCK_DGRAM, AF_INET, EOPNOTSUPP);
    not_accepted(SOCK_STREAM, AF_UNIX, EINVAL);
    not_accepted(SOCK_DGRAM, AF_UNIX, EOPNOTSUPP);
    int event = eventfd(0, 0);
    EXPECT(event >= 0 && accept4(event, NULL, NULL, 0) == -1 && errno == ENOTSOCK);
    EXPECT(close(event) == 0);
}

int main(void) {
    alarm(100);
    never_accepted();
    limits();
    parts();
    interrupted();
    cancelled();
    queues();
    puts("sockets: ok");
    return 0;
}
