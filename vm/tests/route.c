/* Tables: who can send to whom, and changes while others send. */
#include "tests.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* SENDUIPI in a child: the signal that ends it, or 0. */
struct attempt {
    int fd;
    bool attach;
    uint64_t index;
};

static int send_once(void *argument) {
    struct attempt *attempt = argument;
    if (attempt->attach)
        CHECK(!ioctl(attempt->fd, QUAVER_ATTACH));
    _senduipi(attempt->index);
    return 0;
}

static int attempt(int fd, bool attach, uint64_t index) {
    struct attempt in = {fd, attach, index};
    return ended(start(send_once, &in));
}

static bool refused(int status) {
    return status == -SIGSEGV || status == -SIGILL;
}

/* Only attached threads can send, and only through entries that lead somewhere. */
static void only_with_right(void) {
    int fd = device(), other = device();
    receive(fd);
    int self = route_to_self(fd, 0);
    _stui();
    CHECK(attempt(fd, true, (uint64_t)self) == 0);
    CHECK(spin_until(&got[0], 1));
    CHECK(refused(attempt(fd, false, (uint64_t)self)));
    CHECK(refused(attempt(other, true, (uint64_t)self)));
    CHECK(refused(attempt(fd, true, (uint64_t)self + 1)));
    CHECK(refused(attempt(fd, true, 2047)));
    CHECK(refused(attempt(fd, true, 2048)));
    CHECK(refused(attempt(fd, true, ~0ULL)));
    CHECK(!route(fd, self, -1));
    CHECK(refused(attempt(fd, true, (uint64_t)self)));
    sleep_ms(5);
    CHECK(got[0] == 1);
}

struct remote {
    int receiver;
    int vector_fd;
};

static int sends_by_pidfd(void *argument) {
    struct remote *remote = argument;
    int pidfd = (int)syscall(SYS_pidfd_open, remote->receiver, 0);
    CHECK(pidfd >= 0);
    /* The descriptors of fork are closed: what follows has only what it takes. */
    close(remote->vector_fd);
    int target = (int)syscall(SYS_pidfd_getfd, pidfd, remote->vector_fd, 0);
    CHECK(target >= 0);
    int fd = device(), index = route(fd, QUAVER_ANY, target);
    CHECK(index >= 0);
    CHECK(!ioctl(fd, QUAVER_ATTACH));
    for (int i = 0; i < 100; i++) {
        _senduipi(index);
        sched_yield();
    }
    return 0;
}

/* A sender in another process gets the right by pidfd_getfd (Skyloft, section 4.1). */
static void other_process(void) {
    int fd = device();
    receive(fd);
    struct remote remote = {getpid(), vector_fd(fd, 33)};
    _stui();
    int pid = start(sends_by_pidfd, &remote);
    CHECK(spin_until(&got[33], 1) || (sleep_ms(500), got[33] > 0));
    CHECK(ended(pid) == 0);
    CHECK(got[33] <= 100);
    /* What the other sends after its exit is nothing. */
    uint64_t before = got[33];
    sleep_ms(5);
    CHECK(got[33] == before);
}

struct target {
    int fd;
    atomic_int vector_fd;
    uint32_t vector;
    atomic_bool stop;
    atomic_ulong got, other;
};

static void *is_target(void *argument) {
    struct target *target = argument;
    receive(target->fd);
    _stui();
    target->vector_fd = vector_fd(target->fd, target->vector);
    while (!target->stop)
        sched_yield();
    _clui();
    for (uint32_t i = 0; i < 64; i++)
        if (i == target->vector)
            target->got = got[i];
        else
            target->other += got[i];
    return NULL;
}

struct fire {
    int fd, index;
    atomic_bool ready, stop;
};

static void *fires(void *argument) {
    struct fire *fire = argument;
    CHECK(!ioctl(fire->fd, QUAVER_ATTACH));
    fire->ready = true;
    while (!fire->stop) {
        _senduipi(fire->index);
        for (int i = 0; i < 50; i++)
            __builtin_ia32_pause();
    }
    return NULL;
}

/* An entry changes its receiver and vector under fire: no receiver gets a vector that is not its own. */
static void changed_under_fire(void) {
    int fd = device();
    struct target targets[3];
    memset(targets, 0, sizeof(targets));
    for (int i = 0; i < 3; i++) {
        targets[i] = (struct target){.fd = fd, .vector_fd = -1, .vector = i < 2 ? 20 : 21};
        thread(is_target, &targets[i]);
    }
    for (int i = 0; i < 3; i++)
        while (targets[i].vector_fd < 0)
            sched_yield();
    struct fire fire = {.fd = fd, .index = route(fd, QUAVER_ANY, targets[0].vector_fd)};
    CHECK(fire.index >= 0);
    thread(fires, &fire);
    while (!fire.ready)
        sched_yield();
    for (int i = 0; i < 300; i++) {
        CHECK(route(fd, fire.index, targets[i % 3].vector_fd) == fire.index);
        sched_yield();
    }
    fire.stop = true;
    for (int i = 0; i < 3; i++)
        targets[i].stop = true;
    join_all();
    for (int i = 0; i < 3; i++) {
        CHECK(targets[i].got > 0);
        CHECK(targets[i].other == 0);
    }
}

static atomic_ulong arrived;

static __attribute__((target("general-regs-only"), interrupt)) void counts(struct __uintr_frame *frame,
                                                                          unsigned long long vector) {
    (void)frame;
    (void)vector;
    arrived++;
}

static void *is_counted(void *argument) {
    struct target *target = argument;
    CHECK(!try_register(target->fd, counts, 128));
    _stui();
    target->vector_fd = vector_fd(target->fd, target->vector);
    while (!target->stop)
        sched_yield();
    return NULL;
}

static void *sends_and_waits(void *argument) {
    struct fire *fire = argument;
    CHECK(!ioctl(fire->fd, QUAVER_ATTACH));
    fire->ready = true;
    for (unsigned long sent = 1; sent <= 300; sent++) {
        uint64_t until = now_ns() + 2000000000;
        _senduipi(fire->index);
        while (arrived < sent) {
            CHECK(now_ns() < until);
            sched_yield();
        }
    }
    fire->stop = true;
    return NULL;
}

/* What is sent while an entry changes its vector arrives, wherever it leads. */
static void none_lost_by_changes(void) {
    int fd = device();
    struct target targets[2] = {{.fd = fd, .vector_fd = -1, .vector = 3}, {.fd = fd, .vector_fd = -1, .vector = 60}};
    for (int i = 0; i < 2; i++)
        thread(is_counted, &targets[i]);
    for (int i = 0; i < 2; i++)
        while (targets[i].vector_fd < 0)
            sched_yield();
    struct fire fire = {.fd = fd, .index = route(fd, QUAVER_ANY, targets[0].vector_fd)};
    CHECK(fire.index >= 0);
    thread(sends_and_waits, &fire);
    while (!fire.ready)
        sched_yield();
    for (int i = 1; !fire.stop; i++)
        CHECK(route(fd, fire.index, targets[i % 2].vector_fd) == fire.index);
    for (int i = 0; i < 2; i++)
        targets[i].stop = true;
    join_all();
    CHECK(arrived == 300);
}

/* After the return of the call, the old receiver gets nothing. */
static void old_gets_nothing(void) {
    int fd = device();
    struct target target = {.fd = fd, .vector_fd = -1, .vector = 30};
    receive(fd);
    thread(is_target, &target);
    while (target.vector_fd < 0)
        sched_yield();
    int self = vector_fd(fd, 31), index = route(fd, QUAVER_ANY, self);
    _stui();
    for (uint64_t i = 1; i <= 50; i++) {
        CHECK(route(fd, index, target.vector_fd) == index);
        _senduipi(index);
        CHECK(route(fd, index, self) == index);
        _senduipi(index);
        CHECK(spin_until(&got[31], i));
        CHECK(got[31] == i && got[30] == 0);
    }
    target.stop = true;
    join_all();
    CHECK(target.got >= 1 && target.got <= 50 && target.other == 0);
}

static void full_table(void) {
    int fd = device();
    struct quaver_info info;
    CHECK(!ioctl(fd, QUAVER_INFO, &info));
    CHECK(info.entries == 2048 && info.abi == QUAVER_ABI);
    receive(fd);
    int self = vector_fd(fd, 1);
    for (uint32_t i = 0; i < info.entries; i++)
        CHECK(route(fd, QUAVER_ANY, self) == (int)i);
    FAILS(ENOSPC, route(fd, QUAVER_ANY, self));
    CHECK(route(fd, 1000, -1) == 1000);
    CHECK(route(fd, QUAVER_ANY, self) == 1000);
    _stui();
    _senduipi(info.entries - 1);
    CHECK(spin_until(&got[1], 1));
}

const struct test route_tests[] = {
    {"only-with-right", only_with_right, 1},
    {"sender-in-another-process", other_process, 1},
    {"route-changed-under-fire", changed_under_fire, 2},
    {"none-lost-by-changes", none_lost_by_changes, 2},
    {"old-receiver-gets-nothing", old_gets_nothing, 1},
    {"full-table", full_table, 1},
    {NULL, NULL, 0},
};
