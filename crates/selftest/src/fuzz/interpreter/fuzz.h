/* What the parts of the interpreter share; see ../mod.rs for programs and their traces. */
#ifndef FUZZ_H
#define FUZZ_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ARGUMENTS 6
#define AFTER 32
#define THREADS 32
#define OBJECTS 512

/* What came of an operation, in a file that the fuzzer has mapped as well. */
struct record {
    _Atomic uint32_t begun;
    /* 1: it has returned; 2: its thread was cancelled in it. */
    _Atomic uint32_t done;
    /* The result, `errno` where it has a meaning, and something more. */
    int64_t r, e, x;
};

struct operation {
    void (*run)(const long *a, struct record *r);
    int thread;
    long a[ARGUMENTS];
    /* Microseconds before it begins: computing, or asleep if negative. */
    long delay;
    int after_count;
    struct {
        int operation;
        int begun;
    } after[AFTER];
};

struct thread {
    int index;
    pthread_t id;
    /* Numbers of its operations, in their order. */
    int *operations;
    int count;
    struct record *current;
    /* How often handlers ran on it, the code and value of the last one, and whether it was on the alternate stack. */
    atomic_long handled[65];
    volatile int code, value, on_alternate;
    void *alternate;
    int leaving;
    /* A stack that the program gives it, to be freed when it has been joined: nobody knows when a detached one has left
       its stack. */
    void *stack;
    int joined;
};

struct object {
    union {
        pthread_mutex_t mutex;
        pthread_rwlock_t rwlock;
        pthread_spinlock_t spin;
        pthread_barrier_t barrier;
        pthread_cond_t cond;
        sem_t sem;
        pthread_once_t once;
        pthread_key_t key;
        timer_t timer;
    };
    int fd[2];
    FILE *file;
    /* Guarded by what is tested: lost updates show. */
    volatile long value, twin;
    atomic_long sum;
    /* For waits without the C library. */
    atomic_int word;
};

struct entry {
    const char *name;
    void (*run)(const long *a, struct record *r);
};

extern struct thread threads[THREADS];
extern struct object *objects;
extern struct record *records;
extern __thread struct thread *me;
/* A child has its parent's descriptors: no pipe's end is closed, for a result that is the same each time, while one lives. */
extern pthread_rwlock_t children;
extern const struct entry lock_operations[], wait_operations[], signal_operations[], timer_operations[],
    file_operations[], socket_operations[], message_operations[], thread_operations[];

void *thread_main(void *p);
/* Lets others run: a turn of a loop that waits for something that is no operation under test. */
void pass_time(int *turns);
void nap(long us);
/* A turn of a loop that lets nobody else run, unless nobody preempts it. */
void compute_a_while(void);
extern int polite;
struct timespec in_ms(clockid_t clock, long ms);
/* Deterministic work, with a result that wrong registers would change. */
uint64_t burn(long rounds, uint64_t seed);

static inline clockid_t clock_of(long a) { return a ? CLOCK_MONOTONIC : CLOCK_REALTIME; }

/* The result of a function that sets `errno`. */
static inline void returned(struct record *r, long result) {
    r->r = result < 0 ? -1 : result;
    r->e = result < 0 ? errno : 0;
}

#define O(i) (&objects[a[i]])
/* An operation that is one call, which returns an error number. */
#define CALL(name, call)                                                                                               \
    static void name(const long *a, struct record *r) {                                                               \
        (void)a;                                                                                                       \
        r->r = (call);                                                                                                 \
    }
/* The same of a call that sets `errno`. */
#define CALL_ERRNO(name, call)                                                                                         \
    static void name(const long *a, struct record *r) {                                                               \
        (void)a;                                                                                                       \
        returned(r, (call));                                                                                           \
    }

#endif
