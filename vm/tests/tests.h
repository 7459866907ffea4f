/* What the tests in the virtual machine share. Each runs in a process of its own, with a limit of time. */
#ifndef TESTS_H
#define TESTS_H

#define _GNU_SOURCE
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <x86gprintrin.h>

#include "../../kmod/quaver.h"

/* Ends the test, which has failed, and says where. */
#define CHECK(condition) \
    do { \
        if (!(condition)) \
            failed(__FILE__, __LINE__, #condition); \
    } while (0)

/* The call fails with this errno. */
#define FAILS(error, call) \
    do { \
        errno = 0; \
        long result_ = (call); \
        if (result_ != -1 || errno != (error)) \
            failed_call(__FILE__, __LINE__, #call, #error, result_); \
    } while (0)

_Noreturn void failed(const char *file, int line, const char *what);
_Noreturn void failed_call(const char *file, int line, const char *call, const char *error, long result);

/* A test and its name in vm/names; at least so many CPUs, else it is left out. */
struct test {
    const char *name;
    void (*run)(void);
    int cpus;
};

/* What the calling thread's handler has counted, by vector. */
extern _Thread_local volatile uint64_t got[64];
/* The order in which vectors came. */
extern _Thread_local volatile uint64_t order[8];
extern _Thread_local volatile uint64_t ordered;

struct __uintr_frame;
void handler(struct __uintr_frame *frame, unsigned long long vector);

int device(void);
int try_register(int fd, const void *entry, uint64_t stack);
/* Registers `handler`, with the red zone left alone. */
void receive(int fd);
int vector_fd(int fd, uint32_t vector);
int route(int fd, int index, int vector_fd);
/* An entry of fd's table that leads to this vector of the calling thread. */
int route_to_self(int fd, uint32_t vector);

void pin(int cpu);
int cpus(void);
void sleep_ms(long ms);
uint64_t now_ns(void);
/* Waits without a system call until the count is reached: false after a second or so. */
bool spin_until(volatile uint64_t *count, uint64_t wanted);
int start(int (*function)(void *), void *argument);
/* The exit status of a child, or -signal. */
int ended(int pid);
/* What only its creator shares with children. */
void *shared(size_t size);
void thread(void *(*function)(void *), void *argument);
void join_all(void);
long file_number(const char *path);

extern const struct test delivery_tests[], route_tests[], end_tests[], argument_tests[], timer_tests[], core_tests[];

#endif
