/* For debuggers: a thread that waits, one that computes, and main, which says "ready" and waits, or crashes if an argument is given. They have names. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static volatile unsigned long waiters, steps;
static volatile int *const nowhere = (int *)8;

static __attribute__((noinline)) void wait_inner(void) {
    pthread_mutex_lock(&lock);
    waiters = 1;
    for (;;)
        pthread_cond_wait(&never, &lock);
}

static void *wait_outer(void *argument) {
    pthread_setname_np(pthread_self(), "a waiter");
    wait_inner();
    return argument;
}

static __attribute__((noinline)) void compute_inner(void) {
    for (;;)
        steps++;
}

static void *compute_outer(void *argument) {
    compute_inner();
    return argument;
}

static __attribute__((noinline)) void crash(void) {
    *nowhere = 1;
}

int main(int argc, char **argv) {
    pthread_t thread;
    (void)argv;
    if (pthread_create(&thread, NULL, wait_outer, NULL) || pthread_create(&thread, NULL, compute_outer, NULL))
        return 1;
    pthread_setname_np(thread, "a computer");
    prctl(PR_SET_NAME, "names of 15 bytes, no more");
    while (!waiters || steps < 1000000)
        usleep(100);
    puts("ready");
    fflush(stdout);
    if (argc > 1)
        crash();
    for (;;)
        pause();
}
