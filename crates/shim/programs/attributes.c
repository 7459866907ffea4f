/* Threads on stacks of the program's, and with real-time priorities. */
#define _GNU_SOURCE
#include "check.h"

#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <unistd.h>

#define SIZE (256 << 10)

static int rounds;

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

int main(int argc, char **argv) {
    rounds = argc > 1 && atoi(argv[1]) ? 2000 : 20;
    stacks();
    priorities();
    puts("attributes: ok");
    return 0;
}
