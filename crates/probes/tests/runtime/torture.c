// Makes every probe of the main thread hit, and says at the end how many did. With TORTURE_VISIT
// in the environment, one visit in so many unwinds the stack from the slow path, to its very end.
#define _GNU_SOURCE
#include <cpuid.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <unwind.h>

uint64_t torture_hits;
void (*torture_visit)(void);
char torture_avx, torture_avx512;
void torture_0(void), torture_1(void), torture_2(void), torture_3(void), torture_4(void);

static uint64_t every, visits, unwound;
extern void *__libc_stack_end;

// The C library's frames around main are the last, and near the end of the stack.
static _Unwind_Reason_Code frame(struct _Unwind_Context *context, void *found) {
    if (_Unwind_GetCFA(context) + 512 >= (uintptr_t)__libc_stack_end) *(int *)found = 1;
    return _URC_NO_REASON;
}

static void visit(void) {
    if (visits++ % every) return;
    int found = 0;
    _Unwind_Backtrace(frame, &found);
    unwound++;
    if (!found) {
        fprintf(stderr, "the stack ends early at hit %lu\n", (unsigned long)torture_hits);
        _exit(99);
    }
}

static void set(uint32_t offset, uint64_t value) {
    __asm__ volatile("movq %0, %%fs:(%1)" : : "r"(value), "r"((uint64_t)offset) : "memory");
}

__attribute__((constructor(101))) static void arm(void) {
    if (getenv("TORTURE_OFF")) return;
    __builtin_cpu_init();
    torture_avx = __builtin_cpu_supports("avx") != 0;
    torture_avx512 = __builtin_cpu_supports("avx512f") != 0;
    const char *visiting = getenv("TORTURE_VISIT");
    if (visiting) {
        every = strtoul(visiting, NULL, 10);
        torture_visit = visit;
    }
    void (*entries[])(void) = {torture_0, torture_1, torture_2, torture_3, torture_4};
    for (int class = 0; class < 5; class++) set(0x88 + 8 * class, (uint64_t)entries[class]);
    // The word, and a countdown that has run out.
    set(0x80, 1);
}

__attribute__((destructor)) static void report(void) {
    set(0x80, 0);
    fprintf(stderr, "hits %lu unwound %lu\n", (unsigned long)torture_hits, (unsigned long)unwound);
}
