/* The local timer, given to a thread. */
#include "tests.h"

#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { TICK = 1, OTHER = 2 };

static volatile int refill = -1;

__attribute__((target("general-regs-only"), interrupt)) static void on_tick(struct __uintr_frame *frame,
                                                                           unsigned long long vector) {
    (void)frame;
    got[vector & 63]++;
    if (vector == TICK)
        _senduipi(refill);
}

/* The calling thread is on this CPU and has the timer with this period, which is returned as the hardware has it. */
static uint64_t delegate(int fd, int cpu, uint64_t period_ns) {
    struct quaver_timer timer = {.period_ns = period_ns, .vector = TICK};
    pin(cpu);
    CHECK(!try_register(fd, on_tick, 128));
    refill = route_to_self(fd, TICK);
    CHECK(!ioctl(fd, QUAVER_TIMER_SET, &timer));
    CHECK(!ioctl(fd, QUAVER_TIMER_ENABLE));
    _stui();
    return timer.period_ns;
}

/* User instructions for about this long; the clock is read without a system call where the VDSO can. */
static void compute_ns(uint64_t duration) {
    uint64_t end = now_ns() + duration;
    while (now_ns() < end)
        ;
}

static void ticks(void) {
    int fd = device();
    uint64_t period = delegate(fd, 1, 2000000);
    uint64_t begin = now_ns();
    CHECK(spin_until(&got[TICK], 100));
    uint64_t took = now_ns() - begin;
    /* Each is a tick of hardware: 100 of them cannot take less, but may take more. */
    CHECK(took > 95 * period);
    CHECK(!ioctl(fd, QUAVER_TIMER_DISABLE));
    uint64_t before = got[TICK];
    compute_ns(20000000);
    CHECK(got[TICK] == before);
    CHECK(!ioctl(fd, QUAVER_TIMER_ENABLE));
    CHECK(spin_until(&got[TICK], before + 10));
}

static void period_changes(void) {
    int fd = device();
    delegate(fd, 1, 4000000);
    CHECK(spin_until(&got[TICK], 3));
    struct quaver_timer timer = {.period_ns = 1000000, .vector = TICK};
    CHECK(!ioctl(fd, QUAVER_TIMER_SET, &timer));
    uint64_t before = got[TICK];
    compute_ns(100000000);
    uint64_t many = got[TICK] - before;
    CHECK(many > 30);
    timer.period_ns = 50000000;
    CHECK(!ioctl(fd, QUAVER_TIMER_SET, &timer));
    before = got[TICK];
    compute_ns(100000000);
    CHECK(got[TICK] - before <= 4);
}

struct peer {
    int fd, index;
    atomic_ulong sent, wanted;
    atomic_bool stop;
};

static void *sender(void *argument) {
    struct peer *peer = argument;
    pin(0);
    CHECK(!ioctl(peer->fd, QUAVER_ATTACH));
    while (!peer->stop) {
        if (peer->sent < peer->wanted) {
            _senduipi(peer->index);
            peer->sent++;
        }
        sched_yield();
    }
    return NULL;
}

/* What others send arrives with a tick, and at the latest when the timer is given back. */
static void others_with_ticks(void) {
    int fd = device();
    delegate(fd, 1, 2000000);
    struct peer peer = {.fd = fd, .index = route_to_self(fd, OTHER)};
    thread(sender, &peer);
    for (uint64_t i = 1; i <= 20; i++) {
        peer.wanted = i;
        CHECK(spin_until(&got[OTHER], i));
        CHECK(got[OTHER] == i);
    }
    peer.wanted = 21;
    while (peer.sent < 21)
        ;
    CHECK(!ioctl(fd, QUAVER_TIMER_DISABLE));
    CHECK(spin_until(&got[OTHER], 21));
    peer.wanted = 22;
    CHECK(spin_until(&got[OTHER], 22));
    peer.stop = true;
    join_all();
}

/* It sleeps and wakes, and the ticks go on; the kernel's own timers work meanwhile. */
static void ticks_and_sleep(void) {
    int fd = device();
    delegate(fd, 1, 2000000);
    for (int i = 0; i < 20; i++) {
        uint64_t before = got[TICK], begin = now_ns();
        sleep_ms(20);
        uint64_t slept = now_ns() - begin;
        CHECK(slept >= 20000000 && slept < 500000000);
        CHECK(spin_until(&got[TICK], before + 3));
    }
}

struct neighbour {
    atomic_ulong rounds, slept;
    atomic_bool stop;
};

static void *computes(void *argument) {
    struct neighbour *neighbour = argument;
    pin(1);
    while (!neighbour->stop)
        neighbour->rounds++;
    return NULL;
}

static void *naps(void *argument) {
    struct neighbour *neighbour = argument;
    pin(1);
    while (!neighbour->stop) {
        sleep_ms(20);
        neighbour->slept++;
    }
    return NULL;
}

static long counter(const char *name) {
    char line[4096];
    long sum = -1;
    FILE *file = fopen("/proc/interrupts", "r");
    while (file && fgets(line, sizeof(line), file)) {
        char *text = strstr(line, name);
        if (text) {
            char *end = text + strlen(name);
            strtol(end, &end, 10);
            sum = strtol(end, NULL, 10);
        }
    }
    if (file)
        fclose(file);
    return sum;
}

/*
 * Seconds of computing with the timer: clocks agree, the kernel's ticks of this CPU go on, others that are bound to it
 * run, and there is no stall (which the kernel's log would show).
 */
static void delegated_for_long(void) {
    uint64_t seconds = getenv("QUAVER_VM_FULL") ? 10 : 3;
    int fd = device();
    struct neighbour neighbour = {0};
    delegate(fd, 1, 4000000);
    struct timespec wall[2], monotonic[2];
    long kernel_ticks = counter("LOC:");
    CHECK(kernel_ticks >= 0);
    clock_gettime(CLOCK_REALTIME, &wall[0]);
    clock_gettime(CLOCK_MONOTONIC_COARSE, &monotonic[0]);
    uint64_t begin = now_ns();
    /* Alone, then with others. */
    compute_ns(seconds * 700000000);
    uint64_t alone = got[TICK];
    thread(computes, &neighbour);
    thread(naps, &neighbour);
    compute_ns(seconds * 300000000);
    uint64_t took = now_ns() - begin;
    clock_gettime(CLOCK_REALTIME, &wall[1]);
    clock_gettime(CLOCK_MONOTONIC_COARSE, &monotonic[1]);
    kernel_ticks = counter("LOC:") - kernel_ticks;
    neighbour.stop = true;
    join_all();
    printf("delegated for %lu ms: %lu ticks alone, %ld of the kernel, neighbour %lu rounds, %lu naps\n", took / 1000000,
           alone, kernel_ticks, neighbour.rounds, neighbour.slept);
    CHECK(alone > seconds * 700 / 4 / 2);
    CHECK(kernel_ticks > (long)(took / 1000000 / 10 / 2));
    CHECK(neighbour.rounds > 1000 && neighbour.slept > 1);
    int64_t walked = (wall[1].tv_sec - wall[0].tv_sec) * 1000 + (wall[1].tv_nsec - wall[0].tv_nsec) / 1000000;
    int64_t coarse =
        (monotonic[1].tv_sec - monotonic[0].tv_sec) * 1000 + (monotonic[1].tv_nsec - monotonic[0].tv_nsec) / 1000000;
    CHECK(llabs(walked - (int64_t)(took / 1000000)) <= 50);
    CHECK(llabs(coarse - (int64_t)(took / 1000000)) <= 100);
}

static int delegates(void *argument) {
    delegate(device(), 1, 2000000);
    while (got[TICK] < 5)
        ;
    if (argument)
        return 0;
    for (;;)
        ;
}

/* Ended while it has the timer: the kernel has it back. */
static void exit_while_delegated(void) {
    for (int i = 0; i < 10; i++) {
        int pid = start(delegates, i & 1 ? "" : NULL);
        if (!(i & 1)) {
            sleep_ms(100);
            CHECK(!kill(pid, SIGKILL));
        }
        CHECK(ended(pid) == (i & 1 ? 0 : -SIGKILL));
        pin(1);
        uint64_t begin = now_ns();
        sleep_ms(20);
        CHECK(now_ns() - begin < 500000000);
        pin(0);
    }
}

const struct test timer_tests[] = {
    {"delegated-ticks", ticks, 2},
    {"delegated-period-changes", period_changes, 2},
    {"delegated-others-with-ticks", others_with_ticks, 2},
    {"delegated-and-sleep", ticks_and_sleep, 2},
    {"delegated-for-long", delegated_for_long, 2},
    {"exit-while-delegated", exit_while_delegated, 2},
    {NULL, NULL, 0},
};
