/* Connections, and files that are closed or replaced while a call waits for them. */
#include "fuzz.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#define FD O(0)->fd[a[1]]

/* listen OBJECT: on a port of the kernel's choice. */
static void make_listener(const long *a, struct record *r) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof at;
    int fd = O(0)->fd[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    r->r = fd >= 0 && !bind(fd, (struct sockaddr *)&at, n) && !listen(fd, 16) &&
           !getsockname(fd, (struct sockaddr *)&at, &n);
    O(0)->value = at.sin_port;
}

/* connect OBJECT LISTENER: to the port that it has, or had; how it went, and whether the socket waits as before. */
static void dial(const long *a, struct record *r) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    to.sin_port = (in_port_t)O(1)->value;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    returned(r, connect(fd, (struct sockaddr *)&to, sizeof to));
    r->x = fcntl(fd, F_GETFL) & O_NONBLOCK;
    if (r->r < 0)
        close(fd);
    else
        O(0)->fd[0] = fd;
}

/* accept OBJECT LISTENER FLAGS: the other end. */
static void take_connection(const long *a, struct record *r) {
    int fd = a[2] ? accept4(O(1)->fd[0], NULL, NULL, (int)a[2]) : accept(O(1)->fd[0], NULL, NULL);
    returned(r, fd);
    if (fd >= 0) {
        r->r = 1;
        O(0)->fd[1] = fd;
    }
}

/* recv_all OBJECT END COUNT: MSG_WAITALL. */
static void get_whole(const long *a, struct record *r) {
    unsigned char p[8192] = {0};
    returned(r, recv(FD, p, a[2], MSG_WAITALL));
    for (long i = 0; i < r->r; i++)
        r->x = (r->x * 31 + p[i]) & 0xffffffffffff;
}

/* put_whole OBJECT END COUNT: in one call. */
static void put_whole(const long *a, struct record *r) {
    unsigned char *p = calloc(1, a[2]);
    returned(r, write(FD, p, a[2]));
    free(p);
}

/* keep OBJECT END: a duplicate, for those who look. */
static void keep(const long *a, struct record *r) { r->r = (O(0)->value = fcntl(FD, F_DUPFD_CLOEXEC, 0)) >= 0; }

static void drop(const long *a, struct record *r) {
    pthread_rwlock_rdlock(&children);
    returned(r, close((int)O(0)->value));
    pthread_rwlock_unlock(&children);
}

/* taken OBJECT LEFT: when that much is left to be read, whoever reads or writes the rest is in its call. */
static void until_taken(const long *a, struct record *r) {
    for (int left = -1, turns = 0; left != a[1]; pass_time(&turns))
        if (ioctl((int)O(0)->value, FIONREAD, &left))
            returned(r, -1);
}

/* lose OBJECT END HOW: it is closed, or becomes another file; 3: a duplicate of the same one. */
static void lose(const long *a, struct record *r) {
    int other = open("/dev/null", O_RDWR | O_CLOEXEC);
    pthread_rwlock_rdlock(&children);
    switch (a[2]) {
    case 1:
        returned(r, dup2(other, FD) == FD ? 0 : -1);
        break;
    case 2:
        returned(r, dup3(other, FD, O_CLOEXEC) == FD ? 0 : -1);
        break;
    case 3:
        returned(r, dup3((int)O(0)->value, FD, O_CLOEXEC) == FD ? 0 : -1);
        break;
    default:
        returned(r, close(FD));
        FD = -1;
    }
    close(other);
    pthread_rwlock_unlock(&children);
}

/* poll_some FIRST COUNT MS: fd[0] of so many objects; which are ready. */
static void poll_some(const long *a, struct record *r) {
    struct pollfd p[8];
    for (long i = 0; i < a[1]; i++)
        p[i] = (struct pollfd){.fd = objects[a[0] + i].fd[0], .events = POLLIN};
    returned(r, poll(p, a[1], (int)a[2]));
    for (long i = 0; i < a[1]; i++)
        r->x |= (int64_t)(p[i].revents & 0x3f) << i * 6;
}

/* epoll OBJECT WATCHED */
static void make_epoll(const long *a, struct record *r) {
    struct epoll_event e = {.events = EPOLLIN};
    int fd = O(0)->fd[0] = epoll_create1(EPOLL_CLOEXEC);
    returned(r, epoll_ctl(fd, EPOLL_CTL_ADD, O(1)->fd[0], &e));
}

/* epoll_take OBJECT WATCHED: one of the counts of an eventfd that does not wait, beside others. */
static void epoll_take(const long *a, struct record *r) {
    uint64_t v = 0;
    struct epoll_event e;
    do {
        returned(r, epoll_wait(O(0)->fd[0], &e, 1, 600000));
    } while (r->r == 1 && read(O(1)->fd[0], &v, sizeof v) < 0 && errno == EAGAIN);
    r->x = (int64_t)v;
}

const struct entry socket_operations[] = {
    {"listen", make_listener},
    {"connect", dial},
    {"accept", take_connection},
    {"recv_all", get_whole},
    {"put_whole", put_whole},
    {"keep", keep},
    {"drop", drop},
    {"taken", until_taken},
    {"lose", lose},
    {"poll_some", poll_some},
    {"epoll", make_epoll},
    {"epoll_take", epoll_take},
    {NULL, NULL},
};
