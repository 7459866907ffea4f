/* Threads on stacks of the program's, their real-time priorities, CPUs and niceness, and their CPU clocks. */
#define _GNU_SOURCE
#include "check.h"

#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIZE (256 << 10)

static int rounds;

/* The smallest stack that there may be. */
static void *on_smallest(void *p) {
    for (int i = 0; i < rounds; i++)
        spin(200);
    return p;
}

static void smallest(void) {
    size_t size = sysconf(_SC_THREAD_STACK_MIN);
    void *stack = aligned_alloc(4096, size);
    pthread_attr_t a;
    pthread_t t;
    EXPECT(size == (size_t)PTHREAD_STACK_MIN && stack && pthread_attr_init(&a) == 0);
    EXPECT(pthread_attr_setstack(&a, stack, size) == 0 && pthread_create(&t, &a, on_smallest, NULL) == 0);
    EXPECT(pthread_join(t, NULL) == 0 && pthread_attr_destroy(&a) == 0);
    free(stack);
}

static int is_on(const void *low, const void *p) {
    return (const char *)p >= (const char *)low && (const char *)p < (const char *)low + SIZE;
}

static void cleanup(void *p) { ++*(int *)p; }

struct job {
    void *stack;
    int ends, cleaned;
};

static void *on_own_stack(void *p) {
    struct job *job = p;
    char here;
    void *low;
    size_t size;
    pthread_attr_t a;
    EXPECT(is_on(job->stack, &here));
    EXPECT(pthread_getattr_np(pthread_self(), &a) == 0);
    EXPECT(pthread_attr_getstack(&a, &low, &size) == 0 && low == job->stack && size == SIZE);
    pthread_attr_destroy(&a);
    /* Preempted there, if somebody else computes. */
    for (int i = 0; i < rounds; i++) {
        spin(200);
        free(malloc(100));
    }
    pthread_cleanup_push(cleanup, &job->cleaned);
    if (job->ends == 1)
        pthread_exit(p);
    while (job->ends == 2)
        usleep(1000);
    pthread_cleanup_pop(0);
    return p;
}

static void stacks(void) {
    enum { THREADS = 6 };
    struct job jobs[THREADS];
    pthread_t t[THREADS];
    for (int i = 0; i < THREADS; i++) {
        pthread_attr_t a;
        jobs[i] = (struct job){aligned_alloc(4096, SIZE), i % 3, 0};
        EXPECT(pthread_attr_init(&a) == 0);
        EXPECT(pthread_attr_setstack(&a, jobs[i].stack, SIZE) == 0);
        EXPECT(pthread_create(&t[i], &a, on_own_stack, &jobs[i]) == 0);
        pthread_attr_destroy(&a);
    }
    for (int i = 0; i < THREADS; i++) {
        void *result;
        if (i % 3 == 2)
            EXPECT(pthread_cancel(t[i]) == 0);
        EXPECT(pthread_join(t[i], &result) == 0);
        EXPECT(result == (i % 3 == 2 ? PTHREAD_CANCELED : &jobs[i]));
        EXPECT(jobs[i].cleaned == (i % 3 != 0));
        /* Nobody is on it any more. */
        memset(jobs[i].stack, 0xff, SIZE);
        free(jobs[i].stack);
    }
}

static void *policy_of_child(void *p) {
    struct sched_param parameter;
    EXPECT(pthread_getschedparam(pthread_self(), p, &parameter) == 0);
    return (void *)(intptr_t)parameter.sched_priority;
}

/* EPERM: neither the kernel nor the policy has priorities for this program. */
static void priorities(void) {
    struct sched_param p = {50};
    pthread_attr_t a;
    pthread_t t;
    int policy = -1;
    void *priority;
    int result = pthread_setschedparam(pthread_self(), SCHED_FIFO, &p);
    EXPECT(result == 0 || result == EPERM);
    EXPECT(pthread_attr_init(&a) == 0);
    EXPECT(pthread_create(&t, &a, policy_of_child, &policy) == 0 && pthread_join(t, &priority) == 0);
    EXPECT(policy == (result ? SCHED_OTHER : SCHED_FIFO) && (intptr_t)priority == (result ? 0 : 50));
    EXPECT(pthread_attr_setinheritsched(&a, PTHREAD_EXPLICIT_SCHED) == 0);
    EXPECT(pthread_attr_setschedpolicy(&a, SCHED_RR) == 0);
    p.sched_priority = 7;
    EXPECT(pthread_attr_setschedparam(&a, &p) == 0);
    EXPECT(pthread_create(&t, &a, policy_of_child, &policy) == result);
    if (!result) {
        EXPECT(pthread_join(t, &priority) == 0 && policy == SCHED_RR && (intptr_t)priority == 7);
        EXPECT(pthread_setschedprio(pthread_self(), 8) == 0);
        EXPECT(sched_getscheduler(0) == SCHED_FIFO);
    }
    pthread_attr_destroy(&a);
    EXPECT(pthread_setschedparam(pthread_self(), SCHED_RR, &p) == result);
    p.sched_priority = 0;
    EXPECT(pthread_setschedparam(pthread_self(), SCHED_RR, &p) == EINVAL);
    EXPECT(sched_setscheduler(0, SCHED_OTHER, &p) == 0 && sched_getscheduler(0) == SCHED_OTHER);
}

static int is_only_on(cpu_set_t *set, int cpu) { return CPU_COUNT(set) == 1 && CPU_ISSET(cpu, set); }

static void *inherits(void *p) {
    cpu_set_t set;
    int tid = gettid();
    EXPECT(pthread_getaffinity_np(pthread_self(), sizeof set, &set) == 0 && is_only_on(&set, 0));
    EXPECT(getpriority(PRIO_PROCESS, 0) == 3);
    /* One of its own, for it alone. */
    EXPECT(setpriority(PRIO_PROCESS, tid, 7) == 0 && getpriority(PRIO_PROCESS, 0) == 7 && nice(2) == 9);
    EXPECT(getpriority(PRIO_PROCESS, tid) == 9 && getpriority(PRIO_PROCESS, getpid()) == 3);
    EXPECT(nice(100) == 19);
    EXPECT(sched_setaffinity(getpid(), sizeof set, p) == 0);
    EXPECT(sched_getaffinity(tid, sizeof set, &set) == 0 && is_only_on(&set, 0));
    return NULL;
}

/* What a thread asks for is told again, and new threads have it too. */
static void places(void) {
    cpu_set_t all, one, set;
    pthread_t t;
    CPU_ZERO(&one);
    CPU_SET(0, &one);
    /* There is no such one. */
    CPU_SET(CPU_SETSIZE - 1, &one);
    EXPECT(sched_getaffinity(0, sizeof all, &all) == 0);
    EXPECT(sched_setaffinity(0, sizeof one, &one) == 0);
    EXPECT(pthread_getaffinity_np(pthread_self(), sizeof set, &set) == 0 && is_only_on(&set, 0));
    EXPECT(setpriority(PRIO_PROCESS, 0, 3) == 0 && getpriority(PRIO_PROCESS, getpid()) == 3);
    EXPECT(pthread_create(&t, NULL, inherits, &all) == 0 && pthread_join(t, NULL) == 0);
    EXPECT(sched_getaffinity(0, sizeof set, &set) == 0 && CPU_EQUAL(&set, &all));
    CPU_CLR(0, &one);
    EXPECT(sched_setaffinity(0, sizeof one, &one) == -1 && errno == EINVAL);
    EXPECT(pthread_setaffinity_np(pthread_self(), sizeof one, &one) == EINVAL);
    EXPECT(sched_getaffinity(0, 1, &set) == -1 && errno == EINVAL);
    EXPECT(sched_setaffinity(0, sizeof one, (cpu_set_t *)16) == -1 && errno == EFAULT);
    /* A child is as nice. */
    int status;
    pid_t child = fork();
    if (child == 0)
        _exit(getpriority(PRIO_PROCESS, 0));
    EXPECT(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 3);
    EXPECT(getpriority(PRIO_PROCESS, 1) <= 19 && setpriority(PRIO_PROCESS, 1 << 30, 3) == -1 && errno == ESRCH);
}

static double seconds(clockid_t clock) {
    struct timespec t;
    EXPECT(clock_gettime(clock, &t) == 0);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double used(void) {
    struct rusage u;
    EXPECT(getrusage(RUSAGE_THREAD, &u) == 0);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

static int stop;

static void *burns(void *p) {
    double *own = p;
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
        spin(1000);
    *own = seconds(CLOCK_THREAD_CPUTIME_ID);
    return NULL;
}

/* What a thread computes is its own time, and not that of one that sleeps meanwhile. */
static void clocks(void) {
    double own, before = seconds(CLOCK_THREAD_CPUTIME_ID), begun = seconds(CLOCK_MONOTONIC);
    clockid_t its, mine;
    pthread_t t;
    EXPECT(pthread_create(&t, NULL, burns, &own) == 0);
    EXPECT(pthread_getcpuclockid(t, &its) == 0 && pthread_getcpuclockid(pthread_self(), &mine) == 0);
    double last = 0;
    while (last < 0.05) {
        usleep(5000);
        double now = seconds(its);
        EXPECT(now >= last);
        last = now;
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    EXPECT(pthread_join(t, NULL) == 0);
    double all = seconds(CLOCK_MONOTONIC) - begun;
    EXPECT(own >= last && own <= all * 1.02 + 0.001);
    double after = seconds(CLOCK_THREAD_CPUTIME_ID);
    EXPECT(after >= before && after - before <= all * 1.02 + 0.001);
    double both = used();
    EXPECT(both >= after - 0.02 && seconds(mine) >= after);
    struct timespec resolution;
    EXPECT(clock_getres(mine, &resolution) == 0 && resolution.tv_sec == 0);
    /* Computing counts. */
    before = seconds(CLOCK_THREAD_CPUTIME_ID);
    while (seconds(CLOCK_THREAD_CPUTIME_ID) < before + 0.01)
        spin(1000);
}

int main(int argc, char **argv) {
    rounds = argc > 1 && atoi(argv[1]) ? 2000 : 20;
    stacks();
    smallest();
    priorities();
    places();
    clocks();
    puts("attributes: ok");
    return 0;
}
