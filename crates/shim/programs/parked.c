/* Threads that wait for files: few kernel threads, and files that are closed, replaced and inherited meanwhile. */
#define _GNU_SOURCE
#include "check.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static int shimmed(void) {
    char line[512];
    int found = 0;
    FILE *f = fopen("/proc/self/maps", "r");
    while (f && fgets(line, sizeof line, f))
        found |= strstr(line, "libquaver_shim.so") != NULL;
    fclose(f);
    return found;
}

static int kernel_threads(void) {
    int n = 0;
    DIR *d = opendir("/proc/self/task");
    for (struct dirent *e; d && (e = readdir(d));)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static pthread_t start(void *(*f)(void *), void *p) {
    pthread_t t;
    EXPECT(pthread_create(&t, NULL, f, p) == 0);
    return t;
}

static void join(pthread_t t) { EXPECT(pthread_join(t, NULL) == 0); }

/* Until what was written has been taken: whoever takes it with MSG_WAITALL is in its call then, and waits for the rest. */
static void until_taken(int fd) {
    for (int left = 1; left;) {
        EXPECT(ioctl(fd, FIONREAD, &left) == 0);
        usleep(100);
    }
}

enum { MANY = 200 };
static int pairs[MANY][2], began;

static void *wait_somehow(void *p) {
    int i = (int)(long)p, fd = pairs[i][0];
    char c = 0;
    struct pollfd f = {.fd = fd, .events = POLLIN};
    struct epoll_event e = {.events = EPOLLIN};
    fd_set set;
    FD_ZERO(&set);
    FD_SET(fd, &set);
    __atomic_fetch_add(&began, 1, __ATOMIC_SEQ_CST);
    switch (i % 5) {
    case 0: EXPECT(recv(fd, &c, 1, 0) == 1 && c == 'x'); break;
    case 1: EXPECT(read(fd, &c, 1) == 1 && c == 'x'); break;
    case 2: EXPECT(poll(&f, 1, -1) == 1 && f.revents == POLLIN); break;
    case 3: EXPECT(select(fd + 1, &set, NULL, NULL, NULL) == 1); break;
    default: {
        int ep = epoll_create1(EPOLL_CLOEXEC);
        EXPECT(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e) == 0 && epoll_wait(ep, &e, 1, -1) == 1);
        close(ep);
    }
    }
    return NULL;
}

static void many(void) {
    pthread_t t[MANY];
    for (long i = 0; i < MANY; i++) {
        EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, pairs[i]) == 0);
        t[i] = start(wait_somehow, (void *)i);
    }
    while (__atomic_load_n(&began, __ATOMIC_SEQ_CST) < MANY)
        usleep(1000);
    usleep(50000);
    if (shimmed())
        EXPECT(kernel_threads() < 40);
    for (int i = 0; i < MANY; i++)
        EXPECT(write(pairs[i][1], "x", 1) == 1);
    for (int i = 0; i < MANY; i++) {
        join(t[i]);
        close(pairs[i][0]);
        close(pairs[i][1]);
    }
}

struct all {
    int fd;
    long n, result;
};

static void *take_all(void *p) {
    struct all *a = p;
    char data[64];
    a->result = recv(a->fd, data, a->n, MSG_WAITALL);
    return NULL;
}

/* How a descriptor goes while a thread waits for it. */
static void lose(int how, int fd) {
    int other = open("/dev/null", O_RDWR);
    switch (how) {
    case 0: EXPECT(close(fd) == 0); break;
    case 1: EXPECT(dup2(other, fd) == fd); break;
    case 2: EXPECT(dup3(other, fd, O_CLOEXEC) == fd); break;
    default: EXPECT(close_range(fd, fd, 0) == 0);
    }
    /* Then another file has the number. */
    if (how == 0 || how == 3)
        EXPECT(fcntl(other, F_DUPFD, fd) == fd);
    close(other);
}

/* A call that waits keeps its file, and the file ends with the call. */
static void lost(void) {
    for (int how = 0; how < 4; how++) {
        int s[2];
        EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, s) == 0);
        int look = dup(s[0]);
        struct all a = {s[0], 8, 0}, b = {s[0], 8, 0};
        EXPECT(write(s[1], "12", 2) == 2);
        pthread_t t = start(take_all, &a);
        until_taken(look);
        pthread_t u = 0;
        if (how == 0) {
            /* Another one has the same descriptor. */
            EXPECT(write(s[1], "345678ab", 8) == 8);
            join(t);
            EXPECT(a.result == 8);
            t = start(take_all, &a);
            until_taken(look);
            u = start(take_all, &b);
            usleep(20000);
        }
        lose(how, s[0]);
        close(look);
        usleep(1000);
        EXPECT(write(s[1], "cdefgh", 6) == 6);
        if (u)
            EXPECT(write(s[1], "ijklmnop", 8) == 8);
        join(t);
        EXPECT(a.result == 8);
        if (u) {
            join(u);
            /* It may have come too late. */
            EXPECT(b.result == 8 || b.result == -1);
        }
        /* Nobody has it any more. */
        EXPECT(send(s[1], "x", 1, MSG_NOSIGNAL) == -1 && errno == EPIPE);
        close(s[0]);
        close(s[1]);
    }
}

static int event, taken;

static void *take_events(void *p) {
    struct epoll_event e;
    uint64_t v;
    int ep = *(int *)p;
    while (epoll_wait(ep, &e, 1, -1) == 1 && e.data.u32 == 0) {
        if (read(event, &v, sizeof v) == sizeof v) {
            __atomic_fetch_add(&taken, 1, __ATOMIC_SEQ_CST);
        } else {
            EXPECT(errno == EAGAIN);
        }
    }
    return NULL;
}

/* Several threads wait at one epoll file. */
static void shared_epoll(void) {
    struct epoll_event e = {.events = EPOLLIN}, end = {.events = EPOLLIN, .data.u32 = 1};
    int ep = epoll_create1(EPOLL_CLOEXEC), stop = eventfd(0, EFD_CLOEXEC);
    event = eventfd(0, EFD_SEMAPHORE | EFD_NONBLOCK | EFD_CLOEXEC);
    EXPECT(epoll_ctl(ep, EPOLL_CTL_ADD, event, &e) == 0 && epoll_ctl(ep, EPOLL_CTL_ADD, stop, &end) == 0);
    pthread_t t[6];
    for (int i = 0; i < 6; i++)
        t[i] = start(take_events, &ep);
    uint64_t one = 1;
    for (int i = 0; i < 100; i++) {
        EXPECT(write(event, &one, sizeof one) == sizeof one);
        if (i % 10 == 0)
            usleep(300);
    }
    while (__atomic_load_n(&taken, __ATOMIC_SEQ_CST) < 100)
        usleep(100);
    EXPECT(write(stop, &one, sizeof one) == sizeof one);
    for (int i = 0; i < 6; i++)
        join(t[i]);
    close(ep);
    close(stop);
    close(event);
}

static void *read_one(void *p) {
    char c = 0;
    EXPECT(read(*(int *)p, &c, 1) == 1 && c == 'y');
    return NULL;
}

/* A child has descriptors of its own, and nobody waits there. */
static void forks(void) {
    int p[2], q[2], status;
    char c;
    EXPECT(pipe(p) == 0 && pipe(q) == 0);
    pthread_t t = start(read_one, &p[0]);
    usleep(10000);
    for (int i = 0; i < 5; i++) {
        pid_t child = fork();
        if (child == 0) {
            close(p[0]);
            _exit(dup2(q[0], p[0]) == p[0] && read(p[0], &c, 1) == 1 && c == 'z' ? 0 : 1);
        }
        EXPECT(child > 0 && write(q[1], "z", 1) == 1);
        EXPECT(waitpid(child, &status, 0) == child && status == 0);
        child = vfork();
        if (child == 0) {
            close(p[0]);
            dup2(q[0], p[0]);
            _exit(0);
        }
        EXPECT(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    }
    EXPECT(write(p[1], "y", 1) == 1);
    join(t);
    for (int i = 0; i < 2; i++) {
        close(p[i]);
        close(q[i]);
    }
}

int main(void) {
    alarm(100);
    many();
    lost();
    shared_epoll();
    forks();
    puts("parked: ok");
    return 0;
}
