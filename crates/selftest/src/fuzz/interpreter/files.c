/* Pipes, sockets, eventfds, files, and waiting for them. */
#include "fuzz.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>

#define FD O(0)->fd[a[1]]

static void fill(unsigned char *p, long n, long seed) {
    for (long i = 0; i < n; i++)
        p[i] = (unsigned char)((seed + i) * 131 >> 3);
}

static int64_t sum_of(const unsigned char *p, long n, int64_t h) {
    for (long i = 0; i < n; i++)
        h = (h * 31 + p[i]) & 0xffffffffffff;
    return h;
}

/* pipe OBJECT NONBLOCK CAPACITY */
static void make_pipe(const long *a, struct record *r) {
    returned(r, pipe2(O(0)->fd, O_CLOEXEC | (a[1] ? O_NONBLOCK : 0)));
    if (a[2])
        fcntl(O(0)->fd[1], F_SETPIPE_SZ, (int)a[2]);
}

static void make_sockets(const long *a, struct record *r) {
    returned(r, socketpair(AF_UNIX, (a[1] ? SOCK_SEQPACKET : SOCK_STREAM) | SOCK_CLOEXEC, 0, O(0)->fd));
}

/* eventfd OBJECT VALUE NONBLOCK SEMAPHORE */
static void make_eventfd(const long *a, struct record *r) {
    int flags = EFD_CLOEXEC | (a[2] ? EFD_NONBLOCK : 0) | (a[3] ? EFD_SEMAPHORE : 0);
    returned(r, O(0)->fd[0] = eventfd(a[1], flags));
    r->r = r->r >= 0;
}

static void eventfd_get(const long *a, struct record *r) {
    uint64_t v = 0;
    returned(r, read(O(0)->fd[0], &v, sizeof v));
    r->x = (int64_t)v;
}

static void eventfd_add(const long *a, struct record *r) {
    uint64_t v = a[1];
    returned(r, write(O(0)->fd[0], &v, sizeof v));
}

/* read OBJECT END COUNT HOW: 0 read, 1 readv, 2 recv, 3 recv without waiting, 4 recvmsg */
static void get(const long *a, struct record *r) {
    unsigned char p[8192] = {0};
    struct iovec parts[2] = {{p, a[2] / 2}, {p + a[2] / 2, a[2] - a[2] / 2}};
    struct msghdr m = {.msg_iov = parts, .msg_iovlen = 2};
    switch (a[3]) {
    case 1:
        returned(r, readv(FD, parts, 2));
        break;
    case 2:
        returned(r, recv(FD, p, a[2], 0));
        break;
    case 3:
        returned(r, recv(FD, p, a[2], MSG_DONTWAIT));
        break;
    case 4:
        returned(r, recvmsg(FD, &m, 0));
        break;
    default:
        returned(r, read(FD, p, a[2]));
    }
    if (r->r > 0)
        r->x = sum_of(p, r->r, 1);
}

/* write OBJECT END COUNT HOW SEED: 0 write, 1 writev, 2 send, 3 sendmsg */
static void put(const long *a, struct record *r) {
    unsigned char p[8192];
    fill(p, a[2], a[4]);
    struct iovec parts[2] = {{p, a[2] / 2}, {p + a[2] / 2, a[2] - a[2] / 2}};
    struct msghdr m = {.msg_iov = parts, .msg_iovlen = 2};
    switch (a[3]) {
    case 1:
        returned(r, writev(FD, parts, 2));
        break;
    case 2:
        returned(r, send(FD, p, a[2], MSG_NOSIGNAL));
        break;
    case 3:
        returned(r, sendmsg(FD, &m, MSG_NOSIGNAL));
        break;
    default:
        returned(r, write(FD, p, a[2]));
    }
}

/* put_all OBJECT END TOTAL CHUNK: a stream of known bytes. */
static void put_all(const long *a, struct record *r) {
    unsigned char p[8192];
    for (long at = 0; at < a[2];) {
        long n = a[2] - at < a[3] ? a[2] - at : a[3];
        fill(p, n, at);
        ssize_t done = write(FD, p, n);
        if (done <= 0) {
            returned(r, done);
            return;
        }
        at += done;
    }
    r->r = a[2];
}

/* get_all OBJECT END CHUNK: until its end. */
static void get_all(const long *a, struct record *r) {
    unsigned char p[8192];
    ssize_t n;
    long total = 0;
    while ((n = read(FD, p, a[2])) > 0) {
        r->x = sum_of(p, n, r->x);
        total += n;
    }
    returned(r, n);
    if (!r->e)
        r->r = total;
}

static void end(const long *a, struct record *r) {
    pthread_rwlock_rdlock(&children);
    returned(r, close(FD));
    pthread_rwlock_unlock(&children);
    FD = -1;
}

static void nonblock(const long *a, struct record *r) {
    int flags = fcntl(FD, F_GETFL);
    returned(r, fcntl(FD, F_SETFL, a[2] ? flags | O_NONBLOCK : flags & ~O_NONBLOCK));
}

CALL_ERRNO(stop, shutdown(FD, (int)a[2]))

/* patience OBJECT END MS: SO_RCVTIMEO */
static void patience(const long *a, struct record *r) {
    struct timeval t = {a[2] / 1000, a[2] % 1000 * 1000};
    returned(r, setsockopt(FD, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t));
}

static int epoll(int fd, int events, int ms, const sigset_t *mask, int *got) {
    int ep = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event e = {.events = events};
    epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e);
    e.events = 0;
    int n = mask ? epoll_pwait(ep, &e, 1, ms, mask) : epoll_wait(ep, &e, 1, ms), error = errno;
    *got = n > 0 ? (int)e.events : 0;
    close(ep);
    errno = error;
    return n;
}

static int choose(int fd, int events, long ms, const sigset_t *mask, int masked, int *got) {
    fd_set in, out;
    FD_ZERO(&in);
    FD_ZERO(&out);
    if (events & POLLIN)
        FD_SET(fd, &in);
    if (events & POLLOUT)
        FD_SET(fd, &out);
    struct timeval v = {ms / 1000, ms % 1000 * 1000};
    struct timespec s = {ms / 1000, ms % 1000 * 1000000};
    int n = masked ? pselect(fd + 1, &in, &out, NULL, ms < 0 ? NULL : &s, mask)
                   : select(fd + 1, &in, &out, NULL, ms < 0 ? NULL : &v);
    /* What an error leaves there, too. */
    *got = (FD_ISSET(fd, &in) ? POLLIN : 0) | (FD_ISSET(fd, &out) ? POLLOUT : 0);
    return n;
}

/* wait_fd HOW OBJECT END EVENTS MS SIGNAL: poll, ppoll, select, pselect, epoll_wait, epoll_pwait; the mask that these have is the
 * thread's without SIGNAL, or null. What is ready, and how often a handler of SIGNAL has run. */
static void wait_fd(const long *a, struct record *r) {
    int fd = O(1)->fd[a[2]], got = 0;
    sigset_t set, *mask = NULL;
    if (a[5]) {
        pthread_sigmask(SIG_BLOCK, NULL, &set);
        sigdelset(&set, a[5]);
        mask = &set;
    }
    struct pollfd p = {.fd = fd, .events = a[3]};
    struct timespec t = {a[4] / 1000, a[4] % 1000 * 1000000};
    switch (a[0]) {
    case 0:
        returned(r, poll(&p, 1, a[4]));
        got = p.revents;
        break;
    case 1:
        returned(r, ppoll(&p, 1, a[4] < 0 ? NULL : &t, mask));
        got = p.revents;
        break;
    case 2:
    case 3:
        returned(r, choose(fd, a[3], a[4], mask, a[0] == 3, &got));
        break;
    default:
        returned(r, epoll(fd, a[3], a[4], a[0] == 5 ? mask : NULL, &got));
    }
    r->x = r->r > 0 ? got : 0;
    if (a[5])
        r->x |= atomic_exchange(&me->handled[a[5]], 0) << 16;
}

/* A file without a name. Not by memfd_create: its reads do not share an offset atomically. */
static void file(const long *a, struct record *r) {
    char name[] = "file-XXXXXX";
    returned(r, O(0)->fd[0] = mkostemp(name, O_CLOEXEC));
    r->r = r->r >= 0;
    unlink(name);
}

/* file_fill OBJECT RECORDS SIZE: record i begins with i + 1. */
static void file_fill(const long *a, struct record *r) {
    unsigned char *p = calloc(a[1], a[2]);
    for (long i = 0; i < a[1]; i++) {
        int n = (int)i + 1;
        fill(p + i * a[2], a[2], n);
        memcpy(p + i * a[2], &n, sizeof n);
    }
    returned(r, write(O(0)->fd[0], p, a[1] * a[2]));
    free(p);
}

/* file_seek OBJECT AT */
CALL_ERRNO(file_seek, lseek(O(0)->fd[0], a[1], SEEK_SET))

/* file_records OBJECT SIZE: reads records to the end, beside others with the same descriptor; adds up their numbers. */
static void file_records(const long *a, struct record *r) {
    unsigned char *p = malloc(a[1]), *wanted = malloc(a[1]);
    ssize_t n;
    while ((n = read(O(0)->fd[0], p, a[1])) > 0) {
        int number;
        memcpy(&number, p, sizeof number);
        fill(wanted, a[1], number);
        memcpy(wanted, &number, sizeof number);
        if (n != a[1] || memcmp(p, wanted, n))
            r->x++;
        atomic_fetch_add(&O(0)->sum, number);
    }
    returned(r, n);
    free(p);
    free(wanted);
}

static void file_put(const long *a, struct record *r) {
    unsigned char p[8192];
    fill(p, a[2], a[3]);
    returned(r, pwrite(O(0)->fd[0], p, a[2], a[1]));
}

static void file_get(const long *a, struct record *r) {
    unsigned char p[8192];
    returned(r, pread(O(0)->fd[0], p, a[2], a[1]));
    if (r->r > 0)
        r->x = sum_of(p, r->r, 1);
}

/* file_append OBJECT COUNT: beside others; each has its own descriptor for the same file, which is only ever appended to. */
static void file_append(const long *a, struct record *r) {
    char name[64];
    snprintf(name, sizeof name, "/proc/self/fd/%d", O(0)->fd[0]);
    int fd = open(name, O_WRONLY | O_APPEND | O_CLOEXEC);
    unsigned char p[64];
    fill(p, sizeof p, 1);
    for (long i = 0; i < a[1]; i++)
        r->r += write(fd, p, sizeof p);
    r->x = close(fd);
}

/* file_lock OBJECT ROUNDS: a lock of the file's guards a value. */
static void file_lock(const long *a, struct record *r) {
    char name[64];
    snprintf(name, sizeof name, "/proc/self/fd/%d", O(0)->fd[0]);
    int fd = open(name, O_RDWR | O_CLOEXEC);
    for (long i = 0; i < a[1]; i++) {
        struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        r->r |= fcntl(fd, F_OFD_SETLKW, &l);
        long v = O(0)->value;
        burn(100, 1);
        O(0)->value = v + 1;
        l.l_type = F_UNLCK;
        r->r |= fcntl(fd, F_OFD_SETLK, &l);
    }
    close(fd);
}

/* Lines through the C library's own buffers. */
static void line_get(const long *a, struct record *r) {
    char line[256] = "";
    if (!O(0)->file)
        O(0)->file = fdopen(O(0)->fd[0], "r");
    r->r = fgets(line, sizeof line, O(0)->file) != NULL;
    r->e = r->r ? 0 : errno;
    r->x = sum_of((unsigned char *)line, (long)strlen(line), 1);
}

static void line_put(const long *a, struct record *r) { returned(r, dprintf(O(0)->fd[1], "line %ld\n", a[1])); }

const struct entry file_operations[] = {
    {"pipe", make_pipe},
    {"sockets", make_sockets},
    {"eventfd", make_eventfd},
    {"eventfd_get", eventfd_get},
    {"eventfd_add", eventfd_add},
    {"read", get},
    {"write", put},
    {"put_all", put_all},
    {"get_all", get_all},
    {"close", end},
    {"nonblock", nonblock},
    {"shutdown", stop},
    {"patience", patience},
    {"wait_fd", wait_fd},
    {"file", file},
    {"file_fill", file_fill},
    {"file_seek", file_seek},
    {"file_records", file_records},
    {"file_put", file_put},
    {"file_get", file_get},
    {"file_append", file_append},
    {"file_lock", file_lock},
    {"line_get", line_get},
    {"line_put", line_put},
    {NULL, NULL},
};
