/* Shared cores: of the threads that are bound to one, one is active. */
#include "tests.h"

#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* What the members of a group share. */
struct core {
    int fd;
    atomic_int active; /* members that are active now: more than one is an error */
    atomic_int broken;
    atomic_int tids[3];
    atomic_int turns[3];
    atomic_int stop;
};

struct member {
    struct core *core;
    int number;
};

static int park(int fd, unsigned flags) {
    struct quaver_park in = {.cpu = 0, .flags = flags};
    return ioctl(fd, QUAVER_PARK, &in);
}

static int switch_to(int fd, int tid) {
    struct quaver_thread_id in = {.tid = tid};
    return ioctl(fd, QUAVER_SWITCH_TO, &in);
}

static int wake(int fd, int tid, unsigned flags) {
    struct quaver_thread_id in = {.tid = tid, .flags = flags};
    return ioctl(fd, QUAVER_WAKEUP, &in);
}

static int wake_up(int fd, int tid) {
    return wake(fd, tid, 0);
}

static int rest_for(int fd, int tid, uint64_t limit_ns) {
    struct quaver_rest in = {.tid = tid, .limit_ns = limit_ns};
    return ioctl(fd, QUAVER_REST, &in);
}

/* Suspended: the state of a thread in /proc is D or S, not R. */
static void await_suspended(int tid) {
    for (;;) {
        char path[64], state = 0;
        snprintf(path, sizeof(path), "/proc/%d/stat", tid);
        FILE *file = fopen(path, "r");
        CHECK(file && fscanf(file, "%*d %*s %c", &state) == 1);
        fclose(file);
        if (state != 'R')
            return;
        sched_yield();
    }
}

static void enter_turn(struct member *member) {
    struct core *core = member->core;
    if (++core->active != 1)
        core->broken = 1;
    core->turns[member->number]++;
    for (volatile int i = 0; i < 2000; i++)
        ;
}

/* Goes round among the members, by switching to the next, until it is told to stop. */
static int goes_round(void *argument) {
    struct member *member = argument;
    struct core *core = member->core;
    core->tids[member->number] = getpid();
    CHECK(!park(core->fd, 0));
    for (;;) {
        enter_turn(member);
        core->active--;
        if (core->stop)
            return 0;
        if (switch_to(core->fd, core->tids[(member->number + 1) % 3]))
            return errno == ESRCH ? 0 : 1;
    }
}

static struct core *new_core(void) {
    struct core *core = shared(sizeof(*core));
    core->fd = device();
    return core;
}

/* Starts member processes and waits until they are suspended. */
static void populate(struct core *core, int (*function)(void *), int *pids, struct member *members) {
    /* One after the other: who is suspended longest is the first to succeed. */
    for (int i = 0; i < 3; i++) {
        members[i] = (struct member){.core = core, .number = i};
        pids[i] = start(function, &members[i]);
        while (!core->tids[i])
            sched_yield();
        sleep_ms(10);
        await_suspended(pids[i]);
        CHECK(core->turns[i] == 0);
    }
}

static void switches(void) {
    struct core *core = new_core();
    struct member members[3];
    int pids[3];
    populate(core, goes_round, pids, members);
    CHECK(!wake_up(core->fd, pids[0]));
    while (core->turns[2] < 300)
        sleep_ms(5);
    core->stop = 1;
    for (int i = 0; i < 3; i++)
        CHECK(ended(pids[i]) == 0);
    CHECK(!core->broken);
    for (int i = 0; i < 3; i++)
        CHECK(core->turns[i] >= 299);
}

/* Waits until it is active, says so, and stays active until it is killed or told to stop. */
static int stays(void *argument) {
    struct member *member = argument;
    struct core *core = member->core;
    core->tids[member->number] = getpid();
    CHECK(!park(core->fd, 0));
    enter_turn(member);
    while (core->stop != member->number + 1)
        sched_yield();
    core->active--;
    return 0;
}

static void one_active(void) {
    struct core *core = new_core();
    struct member members[3];
    int pids[3];
    populate(core, stays, pids, members);
    CHECK(!wake_up(core->fd, pids[1]));
    while (!core->turns[1])
        sleep_ms(1);
    FAILS(EBUSY, wake_up(core->fd, pids[0]));
    FAILS(EALREADY, wake_up(core->fd, pids[1]));
    /* A signal that is not fatal does not end a suspension. */
    CHECK(!kill(pids[0], SIGCHLD) && !kill(pids[0], SIGSTOP) && !kill(pids[0], SIGCONT));
    sleep_ms(20);
    CHECK(core->turns[0] == 0 && core->turns[2] == 0);
    for (int i = 0; i < 3; i++) {
        static const int sequence[] = {1, 0, 2};
        int number = sequence[i];
        while (!core->turns[number])
            sleep_ms(1);
        core->stop = number + 1;
        CHECK(ended(pids[number]) == 0);
    }
    CHECK(!core->broken);
}

/* Killed while active: a successor runs. Killed while suspended: nothing changes. */
static void killed(void) {
    struct core *core = new_core();
    struct member members[3];
    int pids[3];
    populate(core, stays, pids, members);
    CHECK(!wake_up(core->fd, pids[2]));
    while (!core->turns[2])
        sleep_ms(1);
    CHECK(!kill(pids[0], SIGKILL));
    CHECK(ended(pids[0]) == -SIGKILL);
    sleep_ms(20);
    CHECK(core->turns[1] == 0);
    FAILS(ESRCH, wake_up(core->fd, pids[0]));
    core->active = 0;
    CHECK(!kill(pids[2], SIGKILL));
    CHECK(ended(pids[2]) == -SIGKILL);
    while (!core->turns[1])
        sleep_ms(1);
    core->stop = 2;
    CHECK(ended(pids[1]) == 0);
    CHECK(!core->broken);
}

static int execs(void *argument) {
    struct member *member = argument;
    member->core->tids[member->number] = getpid();
    CHECK(!park(member->core->fd, 0));
    if (member->number != 0) {
        enter_turn(member);
        member->core->active--;
        return 0;
    }
    execl("/bin/busybox", "sleep", "1", (char *)NULL);
    return 1;
}

/* exec is an end: the new program knows nothing of the group. */
static void exec_while_active(void) {
    struct core *core = new_core();
    struct member members[3];
    int pids[3];
    populate(core, execs, pids, members);
    CHECK(!wake_up(core->fd, pids[0]));
    for (int i = 1; i < 3; i++)
        CHECK(ended(pids[i]) == 0);
    CHECK(core->turns[1] == 1 && core->turns[2] == 1);
    CHECK(ended(pids[0]) == 0);
}

/* Leaving gives back the CPUs that the thread had. */
static void leave(void) {
    cpu_set_t before, now;
    struct core *core = new_core();
    struct member members[3];
    int pids[3];
    populate(core, stays, pids, members);
    CHECK(!sched_getaffinity(0, sizeof(before), &before));
    CHECK(!park(core->fd, QUAVER_PARK_TAKE));
    CHECK(!sched_getaffinity(0, sizeof(now), &now));
    CHECK(CPU_COUNT(&now) == 1 && CPU_ISSET(0, &now));
    FAILS(EBUSY, wake_up(core->fd, pids[0]));
    CHECK(!ioctl(core->fd, QUAVER_LEAVE));
    CHECK(!sched_getaffinity(0, sizeof(now), &now));
    CHECK(CPU_EQUAL(&before, &now));
    while (!core->turns[0])
        sleep_ms(1);
    for (int i = 0; i < 3; i++) {
        while (!core->turns[i])
            sleep_ms(1);
        core->stop = i + 1;
        CHECK(ended(pids[i]) == 0);
    }
    CHECK(!core->broken);
}

/* A member receives user interrupts; one that is sent while it is suspended comes when it is active. */
static int receives(void *argument) {
    struct member *member = argument;
    struct core *core = member->core;
    receive(core->fd);
    core->turns[0] = vector_fd(core->fd, 5);
    core->turns[1] = route(core->fd, QUAVER_ANY, core->turns[0]);
    _stui();
    core->tids[0] = getpid();
    CHECK(!park(core->fd, 0));
    return spin_until(&got[5], 1) && got[5] == 1 ? 0 : 1;
}

static void interrupt_while_suspended(void) {
    struct core *core = new_core();
    struct member member = {.core = core};
    int pid = start(receives, &member);
    while (!core->tids[0])
        sched_yield();
    await_suspended(pid);
    sleep_ms(20);
    CHECK(!ioctl(core->fd, QUAVER_ATTACH));
    _senduipi(core->turns[1]);
    sleep_ms(20);
    CHECK(!wake_up(core->fd, pid));
    CHECK(ended(pid) == 0);
}

/* As goes_round, by one call that hands over and rests. */
static int rests_in_turn(void *argument) {
    struct member *member = argument;
    struct core *core = member->core;
    core->tids[member->number] = getpid();
    CHECK(!rest_for(core->fd, 0, 0));
    for (;;) {
        enter_turn(member);
        core->active--;
        if (core->stop)
            return 0;
        if (rest_for(core->fd, core->tids[(member->number + 1) % 3], 0))
            return errno == ESRCH ? 0 : 1;
    }
}

static void hands_over(void) {
    struct core *core = new_core();
    struct member members[3];
    int pids[3];
    populate(core, rests_in_turn, pids, members);
    CHECK(!wake(core->fd, pids[0], QUAVER_WAKE_INSTEAD));
    while (core->turns[2] < 300)
        sleep_ms(5);
    core->stop = 1;
    for (int i = 0; i < 3; i++)
        CHECK(ended(pids[i]) == 0);
    CHECK(!core->broken);
    for (int i = 0; i < 3; i++)
        CHECK(core->turns[i] >= 299);
}

static void nothing(int signal) {
    (void)signal;
}

/* Every way in which a rest ends, in order. */
static int rests_until(void *argument) {
    struct member *member = argument;
    struct core *core = member->core;
    struct sigaction action = {.sa_handler = nothing};
    CHECK(!sigaction(SIGUSR1, &action, NULL));
    FAILS(ETIME, rest_for(core->fd, 0, 1000000));
    core->tids[member->number] = getpid();
    FAILS(EINTR, rest_for(core->fd, 0, 0));
    core->turns[member->number] = 1;
    CHECK(!rest_for(core->fd, 0, 0));
    core->turns[member->number] = 2;
    CHECK(!rest_for(core->fd, 0, 0));
    core->turns[member->number] = 3;
    while (!core->stop)
        sched_yield();
    /* It was woken meanwhile. */
    CHECK(!rest_for(core->fd, 0, 0));
    return 0;
}

static void ends_of_a_rest(void) {
    struct core *core = new_core();
    struct member members[2] = {{.core = core}, {.core = core, .number = 1}};
    int pid = start(rests_until, &members[0]), other = start(stays, &members[1]);
    while (!core->tids[0] || !core->tids[1])
        sched_yield();
    await_suspended(other);
    CHECK(!wake_up(core->fd, other));
    while (!core->turns[1])
        sleep_ms(1);
    for (int turn = 0; turn < 3; turn++) {
        sleep_ms(10);
        await_suspended(pid);
        CHECK(core->turns[0] == turn);
        if (turn == 0)
            CHECK(!kill(pid, SIGUSR1));
        else
            CHECK(!wake(core->fd, pid, turn == 1 ? QUAVER_WAKE_ASIDE : QUAVER_WAKE_INSTEAD));
        while (core->turns[0] == turn)
            sleep_ms(1);
        FAILS(EALREADY, wake_up(core->fd, turn == 2 ? pid : other));
        FAILS(EBUSY, wake_up(core->fd, turn == 2 ? other : pid));
    }
    CHECK(!wake(core->fd, pid, QUAVER_WAKE_INSTEAD));
    core->stop = 2;
    CHECK(ended(pid) == 0 && ended(other) == 0);
}

/* Who rests succeeds an active thread that is killed. */
static void killed_before_a_rest(void) {
    struct core *core = new_core();
    struct member members[3];
    int pids[3];
    populate(core, rests_in_turn, pids, members);
    int active = start(stays, &(struct member){.core = core, .number = 2});
    while (core->tids[2] != active)
        sched_yield();
    await_suspended(active);
    CHECK(!wake_up(core->fd, active));
    while (!core->turns[2])
        sleep_ms(1);
    core->active = 0;
    core->stop = 1;
    CHECK(!kill(active, SIGKILL) && ended(active) == -SIGKILL);
    for (int i = 0; i < 3; i++)
        CHECK(ended(pids[i]) == 0);
    CHECK(!core->broken);
}

const struct test core_tests[] = {
    {"switch-to", switches, 1},
    {"one-active", one_active, 1},
    {"member-killed", killed, 1},
    {"member-execs", exec_while_active, 1},
    {"leave", leave, 1},
    {"rest-hands-over", hands_over, 1},
    {"rest-ends", ends_of_a_rest, 1},
    {"rest-succeeds", killed_before_a_rest, 1},
    {"interrupt-while-suspended", interrupt_while_suspended, 1},
    {NULL, NULL, 0},
};
