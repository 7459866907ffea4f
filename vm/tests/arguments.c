/* Every argument of every call, and random ones. */
#include "tests.h"

#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

static void info(void) {
    int fd = device();
    struct quaver_info in;
    memset(&in, 0xff, sizeof(in));
    CHECK(!ioctl(fd, QUAVER_INFO, &in));
    CHECK(in.abi == QUAVER_ABI);
    CHECK(in.features == (QUAVER_HAS_UINTR | QUAVER_HAS_TIMER | QUAVER_HAS_CORES | QUAVER_HAS_REST));
    CHECK(in.why[0] == 0 && in.hardware_vector == 0xf2);
    CHECK(in.timer_min_ns > 0 && in.timer_min_ns <= 10000 && in.timer_max_ns >= 100000000);
    FAILS(EFAULT, ioctl(fd, QUAVER_INFO, (void *)8));
    FAILS(ENOTTY, ioctl(fd, _IO(QUAVER_MAGIC, 0x10)));
    FAILS(ENOTTY, ioctl(fd, _IO(QUAVER_MAGIC, 0x7f)));
    FAILS(ENOTTY, ioctl(fd, _IO('x', 0x12)));
}

static void register_arguments(void) {
    int fd = device(), other = device();
    struct quaver_handler in = {.handler = (uintptr_t)handler, .stack = 128};
    FAILS(EFAULT, ioctl(fd, QUAVER_REGISTER, (void *)8));
    in.flags = 1;
    FAILS(EINVAL, ioctl(fd, QUAVER_REGISTER, &in));
    in.flags = 0;
    in.reserved = 1;
    FAILS(EINVAL, ioctl(fd, QUAVER_REGISTER, &in));
    const void *handlers[] = {NULL, (void *)0x7ffffffff000, (void *)0x800000000000, (void *)0x8000000000000000,
                              (void *)0xffffffff81000000, (void *)ULONG_MAX};
    for (size_t i = 0; i < sizeof(handlers) / sizeof(handlers[0]); i++)
        FAILS(EINVAL, try_register(fd, handlers[i], 128));
    const uint64_t stacks[] = {1,  2,  4, 130, (1 << 20) + 8, 1ULL << 47, 0x7ffffffff001, 0xffff800000000001, ULONG_MAX,
                               ~7ULL};
    for (size_t i = 0; i < sizeof(stacks) / sizeof(stacks[0]); i++)
        FAILS(EINVAL, try_register(fd, handler, stacks[i]));
    /* None of these has left anything. */
    FAILS(ENOENT, ioctl(fd, QUAVER_DETACH));
    receive(fd);
    FAILS(EBUSY, try_register(fd, handler, 128));
    FAILS(EBUSY, try_register(other, handler, 128));
    FAILS(EBUSY, ioctl(other, QUAVER_ATTACH));
    CHECK(!ioctl(fd, QUAVER_ATTACH));
    CHECK(!ioctl(other, QUAVER_DETACH));
    FAILS(ENOENT, ioctl(fd, QUAVER_DETACH));
    CHECK(!ioctl(other, QUAVER_ATTACH));
    FAILS(EBUSY, try_register(fd, handler, 128));
    CHECK(!try_register(other, handler, 0));
}

static void vector_arguments(void) {
    int fd = device();
    struct quaver_vector in = {.vector = 1};
    FAILS(ENOENT, ioctl(fd, QUAVER_VECTOR, &in));
    CHECK(!ioctl(fd, QUAVER_ATTACH));
    FAILS(ENOENT, ioctl(fd, QUAVER_VECTOR, &in));
    receive(fd);
    FAILS(EFAULT, ioctl(fd, QUAVER_VECTOR, (void *)8));
    in.vector = 64;
    FAILS(EINVAL, ioctl(fd, QUAVER_VECTOR, &in));
    in.vector = UINT_MAX;
    FAILS(EINVAL, ioctl(fd, QUAVER_VECTOR, &in));
    in = (struct quaver_vector){.vector = 1, .flags = 1};
    FAILS(EINVAL, ioctl(fd, QUAVER_VECTOR, &in));
    int descriptor = vector_fd(fd, 63);
    CHECK(fcntl(descriptor, F_GETFD) == FD_CLOEXEC);
    FAILS(ENOTTY, ioctl(descriptor, QUAVER_ATTACH));
    char byte;
    FAILS(EINVAL, read(descriptor, &byte, 1));
}

static void route_arguments(void) {
    int fd = device();
    receive(fd);
    int vector = vector_fd(fd, 1), other = device(), closed = dup(fd);
    close(closed);
    FAILS(EFAULT, ioctl(fd, QUAVER_ROUTE, (void *)8));
    struct quaver_route in = {.index = 0, .vector_fd = vector, .flags = 1};
    FAILS(EINVAL, ioctl(fd, QUAVER_ROUTE, &in));
    in = (struct quaver_route){.index = 0, .vector_fd = vector, .reserved = 1};
    FAILS(EINVAL, ioctl(fd, QUAVER_ROUTE, &in));
    FAILS(EBADF, route(fd, 0, closed));
    FAILS(EBADF, route(fd, 0, INT_MAX));
    FAILS(EINVAL, route(fd, 0, other));
    FAILS(EINVAL, route(fd, 0, 0));
    FAILS(EINVAL, route(fd, 0, -2));
    FAILS(EINVAL, route(fd, -2, vector));
    FAILS(EINVAL, route(fd, INT_MIN, vector));
    FAILS(EINVAL, route(fd, 2048, vector));
    FAILS(EINVAL, route(fd, INT_MAX, vector));
    FAILS(EINVAL, route(fd, QUAVER_ANY, -1));
    FAILS(EINVAL, route(fd, 5, -1));
    CHECK(route(fd, 5, vector) == 5);
    CHECK(route(fd, 5, -1) == 5);
    FAILS(EINVAL, route(fd, 5, -1));
}

static void timer_arguments(void) {
    int fd = device();
    struct quaver_info limits;
    struct quaver_timer in = {.period_ns = 1000000, .vector = 1};
    CHECK(!ioctl(fd, QUAVER_INFO, &limits));
    FAILS(ENOENT, ioctl(fd, QUAVER_TIMER_SET, &in));
    FAILS(ENOENT, ioctl(fd, QUAVER_TIMER_ENABLE));
    FAILS(ENOENT, ioctl(fd, QUAVER_TIMER_DISABLE));
    receive(fd);
    FAILS(ENOENT, ioctl(fd, QUAVER_TIMER_ENABLE));
    FAILS(EFAULT, ioctl(fd, QUAVER_TIMER_SET, (void *)8));
    in.vector = 64;
    FAILS(EINVAL, ioctl(fd, QUAVER_TIMER_SET, &in));
    in = (struct quaver_timer){.period_ns = 1000000, .flags = 1};
    FAILS(EINVAL, ioctl(fd, QUAVER_TIMER_SET, &in));
    const uint64_t periods[] = {0, limits.timer_min_ns - 1, limits.timer_max_ns + 1, ULONG_MAX};
    for (size_t i = 0; i < sizeof(periods) / sizeof(periods[0]); i++) {
        in = (struct quaver_timer){.period_ns = periods[i], .vector = 1};
        FAILS(ERANGE, ioctl(fd, QUAVER_TIMER_SET, &in));
    }
    in = (struct quaver_timer){.period_ns = 1000000, .vector = 1};
    CHECK(!ioctl(fd, QUAVER_TIMER_SET, &in));
    CHECK(in.period_ns > 900000 && in.period_ns <= 1000000);
    if (cpus() > 1)
        FAILS(EINVAL, ioctl(fd, QUAVER_TIMER_ENABLE));
    pin(0);
    if (cpus() == 1) {
        FAILS(EOPNOTSUPP, ioctl(fd, QUAVER_TIMER_ENABLE));
        return;
    }
    CHECK(!ioctl(fd, QUAVER_TIMER_ENABLE));
    FAILS(EBUSY, ioctl(fd, QUAVER_TIMER_ENABLE));
    CHECK(!ioctl(fd, QUAVER_TIMER_DISABLE));
    FAILS(ENOENT, ioctl(fd, QUAVER_TIMER_DISABLE));
}

static void core_arguments(void) {
    int fd = device(), other = device();
    struct quaver_park in = {.cpu = (uint32_t)cpus(), .flags = QUAVER_PARK_TAKE};
    struct quaver_thread_id id = {.tid = getpid()};
    FAILS(EFAULT, ioctl(fd, QUAVER_PARK, (void *)8));
    FAILS(EINVAL, ioctl(fd, QUAVER_PARK, &in));
    in.cpu = UINT_MAX;
    FAILS(EINVAL, ioctl(fd, QUAVER_PARK, &in));
    in = (struct quaver_park){.cpu = 0, .flags = 3};
    FAILS(EINVAL, ioctl(fd, QUAVER_PARK, &in));
    FAILS(EPERM, ioctl(fd, QUAVER_SWITCH_TO, &id));
    FAILS(ESRCH, ioctl(fd, QUAVER_WAKEUP, &id));
    FAILS(ENOENT, ioctl(fd, QUAVER_LEAVE));
    in.flags = QUAVER_PARK_TAKE;
    CHECK(!ioctl(fd, QUAVER_PARK, &in));
    FAILS(EBUSY, ioctl(other, QUAVER_PARK, &in));
    FAILS(EPERM, ioctl(other, QUAVER_SWITCH_TO, &id));
    FAILS(ESRCH, ioctl(other, QUAVER_WAKEUP, &id));
    FAILS(EALREADY, ioctl(fd, QUAVER_WAKEUP, &id));
    FAILS(ESRCH, ioctl(fd, QUAVER_SWITCH_TO, &id));
    const int tids[] = {0, -1, 1, INT_MAX, INT_MIN};
    for (size_t i = 0; i < sizeof(tids) / sizeof(tids[0]); i++) {
        id = (struct quaver_thread_id){.tid = tids[i]};
        FAILS(ESRCH, ioctl(fd, QUAVER_SWITCH_TO, &id));
        FAILS(ESRCH, ioctl(fd, QUAVER_WAKEUP, &id));
    }
    id = (struct quaver_thread_id){.tid = getpid(), .flags = 3};
    FAILS(EINVAL, ioctl(fd, QUAVER_WAKEUP, &id));
    id.flags = 1;
    FAILS(EINVAL, ioctl(fd, QUAVER_SWITCH_TO, &id));
    struct quaver_rest rest = {.cpu = (uint32_t)cpus()};
    FAILS(EINVAL, ioctl(fd, QUAVER_REST, &rest));
    rest.cpu = 0;
    FAILS(EBUSY, ioctl(other, QUAVER_REST, &rest));
    for (size_t i = 1; i < sizeof(tids) / sizeof(tids[0]); i++) {
        rest.tid = tids[i];
        FAILS(ESRCH, ioctl(fd, QUAVER_REST, &rest));
    }
    rest.tid = getpid();
    FAILS(ESRCH, ioctl(fd, QUAVER_REST, &rest));
    CHECK(!ioctl(fd, QUAVER_PARK, &in));
    CHECK(!ioctl(fd, QUAVER_LEAVE));
    FAILS(ENOENT, ioctl(fd, QUAVER_LEAVE));
}

/* A fixed sequence for each seed: xorshift. */
static uint64_t next(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static const unsigned long calls[] = {QUAVER_INFO,          QUAVER_REGISTER,      QUAVER_ATTACH,    QUAVER_DETACH,
                                      QUAVER_VECTOR,        QUAVER_ROUTE,         QUAVER_TIMER_SET, QUAVER_TIMER_ENABLE,
                                      QUAVER_TIMER_DISABLE, QUAVER_PARK,          QUAVER_SWITCH_TO, QUAVER_WAKEUP,
                                      QUAVER_LEAVE,         QUAVER_REST};
enum { CALLS = sizeof(calls) / sizeof(calls[0]) };

struct fuzz {
    uint64_t seed;
    int fd;
    atomic_ulong *done; /* calls that returned, all processes together */
    atomic_ulong *good; /* of these, without an error */
};

/* A word that often means something: small numbers, descriptors, addresses, periods. */
static uint32_t word(uint64_t *state) {
    uint64_t random = next(state);
    switch (random % 8) {
    case 0: return (uint32_t)(random >> 32);
    case 1: return UINT_MAX;
    case 2: return (uint32_t)(random >> 32) & 0x7ff;
    case 3: return (uint32_t)getpid() + (uint32_t)(random >> 32) % 4;
    default: return (uint32_t)(random >> 32) % 16;
    }
}

static void *fuzzes(void *argument) {
    struct fuzz *fuzz = argument;
    uint64_t state = fuzz->seed;
    int fd = fuzz->fd;
    for (;;) {
        uint64_t random = next(&state);
        uint32_t in[64] = {0};
        unsigned long call = calls[random % CALLS];
        for (int i = 0; i < 6; i++)
            in[i] = word(&state);
        if (random >> 8 & 1) {
            /* As it should be, up to a field. */
            memset(in, 0, sizeof(in));
            uint64_t entry = (uintptr_t)handler;
            switch (call) {
            case QUAVER_REGISTER:
                memcpy(in, &entry, 8);
                in[2] = 128;
                break;
            case QUAVER_TIMER_SET:
                in[0] = 20000 + word(&state) % 1000000;
                in[2] = word(&state) & 63;
                break;
            case QUAVER_ROUTE:
                in[0] = word(&state);
                in[1] = word(&state);
                break;
            case QUAVER_PARK:
                in[0] = (uint32_t)(random >> 16 & 1);
                in[1] = 1;
                break;
            case QUAVER_REST:
                in[0] = word(&state);
                in[1] = (uint32_t)(random >> 16 & 1);
                in[2] = word(&state) % 10000000;
                break;
            default: in[0] = word(&state);
            }
        }
        if ((random >> 9) % 16 == 0)
            call ^= 1UL << (random >> 20) % 32;
        if (random >> 32 & 1)
            _stui();
        int result = ioctl(fd, call, random >> 40 & 15 ? (void *)in : (void *)(uintptr_t)next(&state));
        (*fuzz->done)++;
        *fuzz->good += result >= 0;
        if ((call == QUAVER_VECTOR || call == QUAVER_ROUTE) && result > 30)
            close(result);
        if ((random >> 44 & 7) == 0)
            pin((int)(random >> 48) % cpus() & 1);
        if ((random >> 52 & 31) == 0 && call != QUAVER_PARK)
            sched_yield();
    }
    return NULL;
}

static int fuzz_process(void *argument) {
    struct fuzz *first = argument, fuzz[3];
    for (int i = 0; i < 3; i++) {
        fuzz[i] = *first;
        fuzz[i].seed = first->seed * 3 + (uint64_t)i;
        if (i == 2)
            fuzz[i].fd = device();
        if (i)
            thread(fuzzes, &fuzz[i]);
    }
    fuzzes(&fuzz[0]);
    return 0;
}

/*
 * Processes of three threads each with random calls, killed after a time: some are suspended by then. That the kernel
 * is well afterwards, the other tests and its log show.
 */
static void fuzz(void) {
    enum { ROUNDS = 12, PROCESSES = 3 };
    atomic_ulong *counts = shared(2 * sizeof(*counts));
    int fd = device();
    for (uint64_t round = 0; round < ROUNDS; round++) {
        int pids[PROCESSES];
        for (uint64_t i = 0; i < PROCESSES; i++) {
            struct fuzz in = {(round * PROCESSES + i + 1) * 0x9e3779b97f4a7c15, fd, &counts[0], &counts[1]};
            pids[i] = start(fuzz_process, &in);
        }
        sleep_ms(150);
        for (int i = 0; i < PROCESSES; i++)
            kill(pids[i], SIGKILL);
        for (int i = 0; i < PROCESSES; i++) {
            int status = ended(pids[i]);
            /* A tick may come to a thread whose handler is one of another kind: no other end is right. */
            CHECK(status == -SIGKILL || status == -SIGSEGV || status == -SIGILL);
        }
    }
    printf("fuzz: %lu calls, %lu without an error\n", counts[0], counts[1]);
    CHECK(counts[0] > 1000 && counts[1] > 100);
}

const struct test argument_tests[] = {
    {"info", info, 1},
    {"register-arguments", register_arguments, 1},
    {"vector-arguments", vector_arguments, 1},
    {"route-arguments", route_arguments, 1},
    {"timer-arguments", timer_arguments, 1},
    {"core-arguments", core_arguments, 1},
    {"fuzz", fuzz, 1},
    {NULL, NULL, 0},
};
