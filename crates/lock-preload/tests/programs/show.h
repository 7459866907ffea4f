/* One line for each call: what was called, and what it returned. */
#ifndef SHOW_H
#define SHOW_H

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static inline const char *name_of(int errnum)
{
    const char *name = errnum == -1 ? "serial" : errnum ? strerrorname_np(errnum) : "0";
    return name ? name : "?";
}

#define SHOW(call) printf("%-70s %s\n", #call, name_of(call))
#define SHOW_AS(what, call) printf("%s: %-60s %s\n", what, #call, name_of(call))
#define SAY(what, number) printf("%-70s %ld\n", what, (long)(number))

/* What must not fail, and is not what is shown. */
#define DO(call)                                                                                                       \
    do {                                                                                                               \
        int did = (call);                                                                                              \
        if (did) {                                                                                                     \
            printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #call, name_of(did));                                        \
            fflush(stdout);                                                                                            \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)

static inline struct timespec in_ms(clockid_t clock, long ms)
{
    struct timespec t;
    clock_gettime(clock, &t);
    t.tv_nsec += ms % 1000 * 1000000;
    t.tv_sec += ms / 1000 + t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return t;
}

static inline void nap(long ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&t, 0);
}

/* Runs a function in another thread; returns what it returns. */
struct elsewhere {
    int (*f)(void *);
    void *argument;
    int result;
};

static inline void *run_elsewhere(void *at)
{
    struct elsewhere *e = at;
    e->result = e->f(e->argument);
    return 0;
}

static inline int elsewhere(int (*f)(void *), void *argument)
{
    struct elsewhere e = {f, argument, 0};
    pthread_t t;
    DO(pthread_create(&t, 0, run_elsewhere, &e));
    DO(pthread_join(t, 0));
    return e.result;
}

#define ELSEWHERE(function, object) elsewhere((int (*)(void *))(void (*)(void))(function), object)

static const struct timespec PAST = {1, 0}, BEFORE = {-1, 0}, NONSENSE = {1, 1000000000}, NEGATIVE = {1, -1};

#endif
