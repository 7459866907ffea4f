// Makes every probe of all threads hit, and says at the end how many did. In the environment:
// TORTURE_OFF: nothing is done; TORTURE_VISIT=N: one visit in N unwinds the stack from the slow
// path, to its very end. Threads are found by taking the place of pthread_create, unless this is
// compiled with -DTORTURE_STATIC.
#define _GNU_SOURCE
#include <cpuid.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <unwind.h>

// Shared with torture.S, and with nobody else: both may be in shared libraries.
#pragma GCC visibility push(hidden)
void (*torture_visit)(void);
char torture_avx, torture_avx512;
void torture_0(void), torture_1(void), torture_2(void), torture_3(void), torture_4(void);
void torture_other(void);
#pragma GCC visibility pop

// Where in the thread control block; the last two as in torture.S.
enum { WORD = 0x80, ENTRIES = 0x88, HITS = 0x100, OTHER = 0x108 };

static uint64_t every, visits, unwound, hits;
static int on;
static __thread char *stack_end;
extern void *__libc_stack_end;

static uint64_t get(uint32_t offset) {
    uint64_t value;
    __asm__ volatile("movq %%fs:(%1), %0" : "=r"(value) : "r"((uint64_t)offset) : "memory");
    return value;
}

static void set(uint32_t offset, uint64_t value) {
    __asm__ volatile("movq %0, %%fs:(%1)" : : "r"(value), "r"((uint64_t)offset) : "memory");
}

// The C library's frames around main or a thread's function are the last, near the end of the stack.
static _Unwind_Reason_Code frame(struct _Unwind_Context *context, void *found) {
    if (_Unwind_GetCFA(context) + 1024 >= (uintptr_t)stack_end) *(int *)found = 1;
    return _URC_NO_REASON;
}

static void visit(void) {
    if (__atomic_fetch_add(&visits, 1, __ATOMIC_RELAXED) % every) return;
    int found = 0;
    _Unwind_Backtrace(frame, &found);
    __atomic_fetch_add(&unwound, 1, __ATOMIC_RELAXED);
    if (!found) {
        fprintf(stderr, "the stack ends early at hit %lu\n", (unsigned long)get(HITS));
        _exit(99);
    }
}

enum { STACK = 32768 };

static void arm(char *end) {
    stack_end = end;
    void (*entries[])(void) = {torture_0, torture_1, torture_2, torture_3, torture_4};
    for (int class = 0; class < 5; class++) set(ENTRIES + 8 * class, (uint64_t)entries[class]);
    // What is on the other thread's stack: where it begins. Never freed: whoever ends a thread may
    // still meet probes. Not of malloc, which looks for what nobody points to in a sanitizer.
    char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack == MAP_FAILED) abort();
    uint64_t *top = (uint64_t *)(((uintptr_t)stack + STACK) & ~(uintptr_t)63) - 2;
    *top = (uint64_t)torture_other;
    set(HITS, 0);
    set(OTHER, (uint64_t)top);
    // The word, and a countdown that has run out.
    set(WORD, 1);
}

__attribute__((constructor(101))) static void begin(void) {
    if (getenv("TORTURE_OFF")) return;
    __builtin_cpu_init();
    torture_avx = __builtin_cpu_supports("avx") != 0;
    torture_avx512 = __builtin_cpu_supports("avx512bw") != 0;
    const char *visiting = getenv("TORTURE_VISIT");
    if (visiting) {
        every = strtoul(visiting, NULL, 10);
        torture_visit = visit;
    }
    on = 1;
    arm(__libc_stack_end);
}

#ifndef TORTURE_STATIC
struct start {
    void *(*function)(void *);
    void *argument;
};

static void *thread(void *given) {
    struct start start = *(struct start *)given;
    free(given);
    arm(__builtin_frame_address(0));
    void *result = start.function(start.argument);
    set(WORD, 0);
    __atomic_fetch_add(&hits, get(HITS), __ATOMIC_RELAXED);
    return result;
}

int pthread_create(pthread_t *id, const pthread_attr_t *how, void *(*function)(void *), void *argument) {
    int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    *(void **)&create = dlsym(RTLD_NEXT, "pthread_create");
    if (!on) return create(id, how, function, argument);
    struct start *start = malloc(sizeof *start);
    if (!start) abort();
    *start = (struct start){function, argument};
    return create(id, how, thread, start);
}
#endif

__attribute__((destructor)) static void report(void) {
    set(WORD, 0);
    unsigned long all = hits + get(HITS);
    fprintf(stderr, "hits %lu unwound %lu\n", all, (unsigned long)unwound);
}
