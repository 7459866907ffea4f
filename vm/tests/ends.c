/* How threads end while they can receive, and under fire: exit, kill, exec, fork, and unloading the module. */
#include "tests.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The sender is another process, whose table outlives the receivers. */
struct fire {
    atomic_int stop;
    atomic_ulong sent;
    int fd, index;
};

static int fires(void *argument) {
    struct fire *fire = argument;
    CHECK(!ioctl(fire->fd, QUAVER_ATTACH));
    while (!fire->stop) {
        _senduipi(fire->index);
        fire->sent++;
        for (int i = 0; i < 20; i++)
            __builtin_ia32_pause();
    }
    return 0;
}

/* What a victim shares with the test: it routes the entry to itself, and says when it is under fire. */
struct victim {
    struct fire *fire;
    atomic_int hit;
};

static void come_under_fire(struct victim *victim) {
    receive(victim->fire->fd);
    int self = vector_fd(victim->fire->fd, 8);
    CHECK(route(victim->fire->fd, victim->fire->index, self) == victim->fire->index);
    _stui();
    while (!got[8])
        sched_yield();
    victim->hit = 1;
}

static int exits(void *argument) {
    come_under_fire(argument);
    return 7;
}

static int waits(void *argument) {
    come_under_fire(argument);
    for (;;)
        ;
    return 1;
}

static void *waits_in_thread(void *argument) {
    waits(argument);
    return NULL;
}

static int waits_in_threads(void *argument) {
    thread(waits_in_thread, argument);
    for (;;)
        pause();
    return 1;
}

static int execs(void *argument) {
    come_under_fire(argument);
    /* The new program has the default action for SIGSEGV, and the old handler's address is not in it. */
    execl("/bin/busybox", "sh", "-c", "i=0; while [ $i -lt 300 ]; do i=$((i + 1)); done; exit 5", (char *)NULL);
    return 1;
}

static void *exec_now(void *argument) {
    execs(argument);
    return NULL;
}

static int execs_in_thread(void *argument) {
    thread(exec_now, argument);
    for (;;)
        pause();
    return 1;
}

static struct victim *prepare(int *shooter) {
    struct victim *victim = shared(sizeof(*victim));
    victim->fire = shared(sizeof(*victim->fire));
    victim->fire->fd = device();
    receive(victim->fire->fd);
    victim->fire->index = route_to_self(victim->fire->fd, 8);
    /* From here on the entry leads to a receiver that is gone. */
    CHECK(!ioctl(victim->fire->fd, QUAVER_DETACH));
    *shooter = start(fires, victim->fire);
    return victim;
}

static void conclude(struct victim *victim, int shooter) {
    unsigned long sent = victim->fire->sent;
    sleep_ms(20);
    CHECK(victim->fire->sent > sent);
    victim->fire->stop = 1;
    CHECK(ended(shooter) == 0);
}

static void hit(struct victim *victim) {
    while (!victim->hit)
        sched_yield();
    victim->hit = 0;
}

static void exit_while_armed(void) {
    int shooter;
    struct victim *victim = prepare(&shooter);
    for (int i = 0; i < 20; i++) {
        CHECK(ended(start(exits, victim)) == 7);
        hit(victim);
    }
    conclude(victim, shooter);
}

static void killed_while_armed(void) {
    int shooter;
    struct victim *victim = prepare(&shooter);
    for (int i = 0; i < 20; i++) {
        int pid = start(i & 1 ? waits : waits_in_threads, victim);
        hit(victim);
        CHECK(!kill(pid, SIGKILL));
        CHECK(ended(pid) == -SIGKILL);
    }
    conclude(victim, shooter);
}

static void exec_while_armed(void) {
    int shooter;
    struct victim *victim = prepare(&shooter);
    for (int i = 0; i < 6; i++) {
        CHECK(ended(start(i & 1 ? execs : execs_in_thread, victim)) == 5);
        hit(victim);
    }
    conclude(victim, shooter);
}

/* A route to a receiver that is gone is refused; an entry that leads to one has no effect. */
static void gone_receiver(void) {
    int fd = device();
    receive(fd);
    int self = vector_fd(fd, 1), index = route(fd, QUAVER_ANY, self);
    CHECK(index >= 0);
    CHECK(!ioctl(fd, QUAVER_DETACH));
    FAILS(ESRCH, route(fd, QUAVER_ANY, self));
    CHECK(!ioctl(fd, QUAVER_ATTACH));
    _senduipi(index);
    /* A second life has a receiver of its own. */
    receive(fd);
    int again = route_to_self(fd, 1);
    _stui();
    _senduipi(index);
    sleep_ms(2);
    CHECK(got[1] == 0);
    _senduipi(again);
    CHECK(spin_until(&got[1], 1));
}

static int child_of_receiver(void *argument) {
    int fd = *(int *)argument;
    struct quaver_timer timer = {.period_ns = 1000000};
    FAILS(ENOENT, ioctl(fd, QUAVER_DETACH));
    FAILS(ENOENT, ioctl(fd, QUAVER_TIMER_SET, &timer));
    /* The flag is the thread's: a new one has it clear. */
    if (_testui())
        return 2;
    for (volatile int i = 0; i < 1000000; i++)
        ;
    return got[4] ? 3 : 0;
}

static void fork_while_armed(void) {
    int fd = device();
    receive(fd);
    int self = route_to_self(fd, 4);
    _stui();
    for (int i = 0; i < 10; i++) {
        got[4] = 0;
        int pid = start(child_of_receiver, &fd);
        _senduipi(self);
        CHECK(spin_until(&got[4], 1));
        CHECK(ended(pid) == 0);
    }
}

static long unload(void) {
    return syscall(SYS_delete_module, "quaver", O_NONBLOCK);
}

static bool loaded(void) {
    return access("/sys/module/quaver/initstate", F_OK) == 0;
}

static int use_count(void) {
    return (int)file_number("/sys/module/quaver/refcnt");
}

/* In use by open files, by threads that have closed theirs, by vectors, by members of a group. */
static void unload_in_use(void) {
    CHECK(loaded());
    for (int i = 0; i < 100 && use_count() > 0; i++)
        sleep_ms(10);
    CHECK(use_count() == 0);
    int fd = device();
    FAILS(EWOULDBLOCK, unload());
    receive(fd);
    int self = vector_fd(fd, 6), index = route(fd, QUAVER_ANY, self);
    _stui();
    close(fd);
    FAILS(EWOULDBLOCK, unload());
    _senduipi(index);
    CHECK(spin_until(&got[6], 1));
    close(self);
    FAILS(EWOULDBLOCK, unload());
    fd = device();
    struct quaver_park park = {.cpu = 0, .flags = QUAVER_PARK_TAKE};
    CHECK(!ioctl(fd, QUAVER_PARK, &park));
    CHECK(!ioctl(fd, QUAVER_DETACH));
    close(fd);
    FAILS(EWOULDBLOCK, unload());
    fd = device();
    CHECK(!ioctl(fd, QUAVER_LEAVE));
    close(fd);
    CHECK(use_count() == 0);
}

/* Unloaded and loaded again, it works as before. */
static void unload_and_load(void) {
    for (int i = 0; i < 5; i++) {
        for (int k = 0; k < 100 && use_count() > 0; k++)
            sleep_ms(10);
        CHECK(!unload());
        CHECK(!loaded());
        CHECK(access(QUAVER_DEVICE, F_OK));
        int module = open("/t/quaver.ko", O_RDONLY);
        CHECK(module >= 0);
        CHECK(!syscall(SYS_finit_module, module, "", 0));
        close(module);
        int fd = device();
        receive(fd);
        int self = route_to_self(fd, 6);
        got[6] = 0;
        _stui();
        _senduipi(self);
        CHECK(spin_until(&got[6], 1));
        CHECK(!ioctl(fd, QUAVER_DETACH));
        close(fd);
    }
}

const struct test end_tests[] = {
    {"exit-while-armed", exit_while_armed, 2},
    {"killed-while-armed", killed_while_armed, 2},
    {"exec-while-armed", exec_while_armed, 2},
    {"fork-while-armed", fork_while_armed, 1},
    {"gone-receiver", gone_receiver, 1},
    {"unload-in-use", unload_in_use, 1},
    {"unload-and-load", unload_and_load, 1},
    {NULL, NULL, 0},
};
