/* Blocking calls: each must let other threads run, keep its meaning, and not return early because threads are preempted. */
#define _GNU_SOURCE
#include "check.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BIG = 1 << 20 };
static int stop;

static void *burn(void *p) {
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
        spin(1000);
    return p;
}

static void *write_big(void *p) {
    int fd = *(int *)p;
    char *data = malloc(BIG);
    for (int i = 0; i < BIG; i++)
        data[i] = (char)(i * 7);
    /* A blocking write to a pipe is not partial. */
    EXPECT(write(fd, data, BIG) == BIG);
    struct iovec v[2] = {{data, BIG / 2}, {data + BIG / 2, BIG / 2}};
    EXPECT(writev(fd, v, 2) == BIG);
    free(data);
    close(fd);
    return NULL;
}

static void pipes(void) {
    int p[2];
    pthread_t t;
    EXPECT(pipe(p) == 0 && pthread_create(&t, NULL, write_big, &p[1]) == 0);
    char buffer[4096];
    long n, total = 0;
    while ((n = read(p[0], buffer, sizeof buffer)) > 0) {
        for (long i = 0; i < n; i++)
            EXPECT(buffer[i] == (char)((total + i) % BIG * 7));
        total += n;
    }
    EXPECT(n == 0 && total == 2 * BIG && pthread_join(t, NULL) == 0);
    close(p[0]);
    EXPECT(pipe2(p, O_NONBLOCK) == 0 && read(p[0], buffer, 1) == -1 && errno == EAGAIN);
    long filled = 0;
    while ((n = write(p[1], buffer, sizeof buffer)) > 0)
        filled += n;
    EXPECT(errno == EAGAIN && filled >= 4096);
    close(p[0]);
    signal(SIGPIPE, SIG_IGN);
    EXPECT(write(p[1], buffer, 1) == -1 && errno == EPIPE);
    close(p[1]);
}

static struct sockaddr_in address;

static void *client(void *p) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    uint32_t n = (uint32_t)(long)p;
    EXPECT(connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
    for (uint32_t i = 0; i < 200; i++) {
        uint32_t ask = n * 1000 + i, answer;
        EXPECT(send(fd, &ask, sizeof ask, 0) == sizeof ask);
        EXPECT(recv(fd, &answer, sizeof answer, MSG_WAITALL) == sizeof answer && answer == ask + 1);
    }
    close(fd);
    return NULL;
}

static void *serve(void *p) {
    int fd = (int)(long)p;
    uint32_t ask;
    while (read(fd, &ask, sizeof ask) == sizeof ask) {
        ask++;
        EXPECT(write(fd, &ask, sizeof ask) == sizeof ask);
    }
    close(fd);
    return NULL;
}

static void sockets(void) {
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    pthread_t c[6], s[6];
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT(bind(fd, (struct sockaddr *)&address, len) == 0 && listen(fd, 16) == 0);
    EXPECT(getsockname(fd, (struct sockaddr *)&address, &len) == 0);
    for (long i = 0; i < 6; i++)
        EXPECT(pthread_create(&c[i], NULL, client, (void *)i) == 0);
    for (long i = 0; i < 6; i++) {
        long one = accept(fd, NULL, NULL);
        EXPECT(one >= 0 && pthread_create(&s[i], NULL, serve, (void *)one) == 0);
    }
    for (long i = 0; i < 6; i++)
        EXPECT(pthread_join(c[i], NULL) == 0 && pthread_join(s[i], NULL) == 0);
    close(fd);
}

static void *tickle(void *p) {
    usleep(20000);
    EXPECT(write(*(int *)p, "x", 1) == 1);
    return NULL;
}

static void waits(void) {
    int p[2];
    EXPECT(pipe(p) == 0);
    for (int how = 0; how < 6; how++) {
        pthread_t t;
        char c;
        struct pollfd f = {.fd = p[0], .events = POLLIN};
        struct epoll_event e = {.events = EPOLLIN, .data.u32 = 9};
        struct timespec ages = {60, 0};
        struct timeval ages_v = {60, 0};
        fd_set set;
        FD_ZERO(&set);
        FD_SET(p[0], &set);
        int ep = epoll_create1(0);
        EXPECT(epoll_ctl(ep, EPOLL_CTL_ADD, p[0], &e) == 0 && pthread_create(&t, NULL, tickle, &p[1]) == 0);
        switch (how) {
        case 0: EXPECT(poll(&f, 1, -1) == 1 && f.revents == POLLIN); break;
        case 1: EXPECT(ppoll(&f, 1, &ages, NULL) == 1); break;
        case 2: EXPECT(select(p[0] + 1, &set, NULL, NULL, &ages_v) == 1 && FD_ISSET(p[0], &set) && ages_v.tv_sec < 60); break;
        case 3: EXPECT(pselect(p[0] + 1, &set, NULL, NULL, &ages, NULL) == 1 && FD_ISSET(p[0], &set)); break;
        case 4: EXPECT(epoll_wait(ep, &e, 1, 60000) == 1 && e.data.u32 == 9); break;
        case 5: EXPECT(epoll_wait(ep, &e, 1, -1) == 1); break;
        }
        EXPECT(read(p[0], &c, 1) == 1 && pthread_join(t, NULL) == 0);
        struct timespec before = in_ms(CLOCK_MONOTONIC, 0), after;
        EXPECT(poll(&f, 1, 30) == 0 && epoll_wait(ep, &e, 1, 30) == 0 && usleep(30000) == 0);
        after = in_ms(CLOCK_MONOTONIC, 0);
        EXPECT((after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000 >= 89);
        close(ep);
    }
}

static void files(void) {
    char name[] = "/tmp/quaver-shim-XXXXXX", buffer[5000];
    int fd = mkstemp(name);
    EXPECT(fd >= 0 && unlink(name) == 0);
    for (int i = 0; i < 100; i++) {
        memset(buffer, i, sizeof buffer);
        EXPECT(write(fd, buffer, sizeof buffer) == (long)sizeof buffer);
    }
    EXPECT(fsync(fd) == 0 && lseek(fd, 0, SEEK_SET) == 0);
    for (int i = 0; i < 100; i++) {
        EXPECT(read(fd, buffer, sizeof buffer) == (long)sizeof buffer && buffer[0] == i && buffer[4999] == i);
        EXPECT(pread(fd, buffer, 100, i * 5000L) == 100 && buffer[0] == i);
    }
    EXPECT(read(fd, buffer, 1) == 0);
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    EXPECT(fcntl(fd, F_SETLKW, &l) == 0 && (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDWR);
    close(fd);
    EXPECT(read(fd, buffer, 1) == -1 && errno == EBADF);
}

static void children(void) {
    pid_t child = fork();
    if (child == 0) {
        usleep(20000);
        _exit(5);
    }
    int status;
    EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 5);
    EXPECT(system("exit 3") == 3 << 8);
    FILE *f = popen("echo hello", "r");
    char line[16];
    EXPECT(f && fgets(line, sizeof line, f) && strcmp(line, "hello\n") == 0 && pclose(f) == 0);
}

/* The argument says how many threads compute meanwhile. */
int main(int argc, char **argv) {
    int burners = argc > 1 ? atoi(argv[1]) : 2;
    pthread_t burner[8];
    for (int i = 0; i < burners; i++)
        EXPECT(pthread_create(&burner[i], NULL, burn, NULL) == 0);
    pipes();
    sockets();
    waits();
    files();
    children();
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < burners; i++)
        EXPECT(pthread_join(burner[i], NULL) == 0);
    puts("blocking: ok");
    return 0;
}
