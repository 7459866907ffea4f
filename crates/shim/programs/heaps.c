/* What Erlang's compiled code does: its heap is below the stack pointer, and handlers run on alternate stacks, for which
 * the program has a sigaction of its own. Nothing else may write there. */
#define _GNU_SOURCE
#include "preempted.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>

enum { THREADS = 4, ROUNDS = 20, SIZE = 32 * 1024, WORDS = SIZE / 8 };

int sigaction(int n, const struct sigaction *new, struct sigaction *old) {
    int (*next)(int, const struct sigaction *, struct sigaction *);
    *(void **)&next = dlsym(RTLD_NEXT, "sigaction");
    struct sigaction changed;
    if (new) {
        changed = *new;
        if (changed.sa_handler != SIG_DFL && changed.sa_handler != SIG_IGN)
            changed.sa_flags |= SA_ONSTACK;
        new = &changed;
    }
    return next(n, new, old);
}

static const struct timespec ms = {.tv_nsec = 1000000};
static __thread char *alternate;
static __thread int calls;
static int all_calls, running;

static void note(int n) {
    char here;
    EXPECT(n == SIGUSR1 && &here > alternate && &here < alternate + SIZE);
    calls++;
    __atomic_fetch_add(&all_calls, 1, __ATOMIC_RELAXED);
}

/* Counts to zero with the stack pointer at `top`. */
static void count_at(uint64_t *top, long n) {
    __asm__ volatile("xchg %%rsp, %0\n1: dec %1\njnz 1b\nxchg %%rsp, %0" : "+r"(top), "+r"(n) : : "cc", "memory");
}

static void *compute(void *p) {
    static const long LOOPS = 2000000;
    alternate = malloc(SIZE);
    uint64_t *heap = malloc(SIZE);
    stack_t stack = {.ss_sp = alternate, .ss_size = SIZE};
    EXPECT(alternate && heap && sigaltstack(&stack, NULL) == 0);
    __atomic_fetch_add(&running, 1, __ATOMIC_RELAXED);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < WORDS; i++)
            heap[i] = (uint64_t)i * 0x9e3779b97f4a7c15;
        count_at(heap + WORDS - 8, LOOPS);
        for (int i = 0; i < WORDS; i++)
            EXPECT(heap[i] == (uint64_t)i * 0x9e3779b97f4a7c15);
    }
    while (calls == 0)
        nanosleep(&ms, NULL);
    stack.ss_flags = SS_DISABLE;
    EXPECT(sigaltstack(&stack, NULL) == 0);
    free(alternate);
    free(heap);
    return p;
}

int main(int argc, char **argv) {
    struct sigaction a = {.sa_handler = note};
    pthread_t threads[THREADS];
    EXPECT(sigaction(SIGUSR1, &a, NULL) == 0);
    for (int i = 0; i < THREADS; i++)
        EXPECT(pthread_create(&threads[i], NULL, compute, NULL) == 0);
    while (__atomic_load_n(&running, __ATOMIC_RELAXED) < THREADS)
        nanosleep(&ms, NULL);
    /* Handlers find the threads there, too. */
    for (int i = 0; i < THREADS; i++)
        EXPECT(pthread_kill(threads[i], SIGUSR1) == 0);
    while (__atomic_load_n(&all_calls, __ATOMIC_RELAXED) < THREADS)
        nanosleep(&ms, NULL);
    if (argc < 2 || atoi(argv[1]) > 0)
        expect_preemption();
    for (int i = 0; i < THREADS; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0);
    return 0;
}
