/* Several messages with one call, what is asked of sockets, queues of listeners, and waiting for many. */
#include "fuzz.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/un.h>

#define FD O(0)->fd[a[1]]
#define MESSAGES 16
#define ROOM 4096

/* udp OBJECT: two sockets for datagrams that are connected to each other. */
static void make_datagrams(const long *a, struct record *r) {
    struct sockaddr_in at[2];
    socklen_t n = sizeof at[0];
    r->r = 1;
    for (int i = 0; i < 2; i++) {
        at[i] = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        int fd = O(0)->fd[i] = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        r->r &= !bind(fd, (struct sockaddr *)&at[i], n) && !getsockname(fd, (struct sockaddr *)&at[i], &n);
    }
    for (int i = 0; i < 2; i++)
        r->r &= !connect(O(0)->fd[i], (struct sockaddr *)&at[1 - i], n);
}

static void prepare(struct mmsghdr *m, struct iovec *v, unsigned char *p, long count, long each) {
    memset(m, 0, count * sizeof *m);
    for (long i = 0; i < count; i++) {
        v[i] = (struct iovec){p + i * each, each};
        m[i].msg_hdr.msg_iov = &v[i];
        m[i].msg_hdr.msg_iovlen = 1;
    }
}

/* recv_several OBJECT END COUNT ROOM FLAGS MS: lengths and contents; MS -1: without a time. */
static void get_several(const long *a, struct record *r) {
    static __thread unsigned char p[MESSAGES * ROOM];
    struct mmsghdr m[MESSAGES];
    struct iovec v[MESSAGES];
    struct timespec t = {a[5] / 1000, a[5] % 1000 * 1000000};
    memset(p, 0, sizeof p);
    prepare(m, v, p, a[2], a[3]);
    returned(r, recvmmsg(FD, m, a[2], (int)a[4], a[5] < 0 ? NULL : &t));
    for (long i = 0; i < r->r; i++) {
        r->x = (r->x * 31 + m[i].msg_len + (m[i].msg_hdr.msg_flags & MSG_TRUNC)) & 0xffffffffffff;
        for (long j = 0; j < a[3]; j++)
            r->x = (r->x * 31 + p[i * a[3] + j]) & 0xffffffffffff;
    }
}

/* send_several OBJECT END COUNT EACH FLAGS */
static void put_several(const long *a, struct record *r) {
    unsigned char *p = calloc(a[2], a[3] + 1);
    struct mmsghdr m[MESSAGES];
    struct iovec v[MESSAGES];
    for (long i = 0; i < a[2] * a[3]; i++)
        p[i] = (unsigned char)(i * 131 >> 3);
    prepare(m, v, p, a[2], a[3]);
    returned(r, sendmmsg(FD, m, a[2], (int)a[4] | MSG_NOSIGNAL));
    for (long i = 0; i < r->r; i++)
        r->x += m[i].msg_len;
    free(p);
}

/* bytes OBJECT END: FIONREAD. */
static void bytes(const long *a, struct record *r) {
    int n = -1;
    returned(r, ioctl(FD, FIONREAD, &n));
    r->x = n;
}

/* ask OBJECT END WHICH ROOM: an option. */
static void ask(const long *a, struct record *r) {
    static const int names[][2] = {{SOL_SOCKET, SO_ERROR},      {SOL_SOCKET, SO_TYPE},   {SOL_SOCKET, SO_ACCEPTCONN},
                                   {SOL_SOCKET, SO_DOMAIN},     {SOL_SOCKET, SO_PROTOCOL}, {IPPROTO_TCP, TCP_INFO},
                                   {SOL_SOCKET, SO_REUSEADDR}};
    unsigned char value[4] = {9, 9, 9, 9};
    socklen_t n = (socklen_t)a[3];
    returned(r, getsockopt(FD, names[a[2]][0], names[a[2]][1], value, &n));
    /* Of TCP_INFO the state. */
    for (int i = 0; i < (names[a[2]][1] == TCP_INFO ? 1 : 4); i++)
        r->x = r->x << 8 | value[i];
    r->x |= (int64_t)n << 32;
}

static socklen_t name_of(struct sockaddr_un *at, long number) {
    memset(at, 0, sizeof *at);
    at->sun_family = AF_UNIX;
    snprintf(at->sun_path + 1, 6, "%05lx", number);
    return offsetof(struct sockaddr_un, sun_path) + 6;
}

/* listen_unix OBJECT BACKLOG: at a name of the kernel's choice. */
static void listen_unix(const long *a, struct record *r) {
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    socklen_t n = sizeof at;
    int fd = O(0)->fd[0] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    r->r = fd >= 0 && !bind(fd, (struct sockaddr *)&at, sizeof at.sun_family) && !listen(fd, (int)a[1]) &&
           !getsockname(fd, (struct sockaddr *)&at, &n);
    at.sun_path[6] = 0;
    O(0)->value = strtol(at.sun_path + 1, NULL, 16);
}

/* dial_unix OBJECT LISTENER WAITS */
static void dial_unix(const long *a, struct record *r) {
    struct sockaddr_un to;
    socklen_t n = name_of(&to, O(1)->value);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | (a[2] ? 0 : SOCK_NONBLOCK), 0);
    returned(r, connect(fd, (struct sockaddr *)&to, n));
    if (r->r < 0)
        close(fd);
    else
        O(0)->fd[0] = fd;
}

/* wait_crowd FIRST COUNT TIMES MS HOW: for fd[0] of so many objects, by select or (so many times each) by poll; which
   are ready. */
static void wait_crowd(const long *a, struct record *r) {
    struct pollfd p[8 * 16];
    long count = a[1] * a[2];
    if (a[4]) {
        struct timeval t = {a[3] / 1000, a[3] % 1000 * 1000};
        fd_set set;
        int last = 0;
        FD_ZERO(&set);
        for (long i = 0; i < a[1]; i++) {
            int fd = objects[a[0] + i].fd[0];
            FD_SET(fd, &set);
            last = fd > last ? fd : last;
        }
        returned(r, select(last + 1, &set, NULL, NULL, a[3] < 0 ? NULL : &t));
        for (long i = 0; i < a[1] && r->r >= 0; i++)
            r->x |= (int64_t)!!FD_ISSET(objects[a[0] + i].fd[0], &set) << i;
        return;
    }
    for (long i = 0; i < count; i++)
        p[i] = (struct pollfd){.fd = objects[a[0] + i % a[1]].fd[0], .events = POLLIN};
    returned(r, poll(p, count, (int)a[3]));
    /* What comes during a look is seen by the later ones of the same file only. */
    r->r = r->r > 0 ? 1 : r->r;
    for (long i = 0; i < count; i++)
        r->x |= (int64_t)(p[i].revents & 0x3f) << i % a[1] * 6;
}

const struct entry message_operations[] = {
    {"udp", make_datagrams},
    {"recv_several", get_several},
    {"send_several", put_several},
    {"bytes", bytes},
    {"ask", ask},
    {"listen_unix", listen_unix},
    {"dial_unix", dial_unix},
    {"wait_crowd", wait_crowd},
    {NULL, NULL},
};
