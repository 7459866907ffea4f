// Inline assembly, setjmp, variable arguments, thread-locals, indirect calls, callee that keeps
// more registers than the ABI asks for.
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static __thread int local = 3;
__thread long counted;

__attribute__((noinline)) static long addup(int n, ...) {
    va_list list;
    long s = 0;
    double d = 0;
    va_start(list, n);
    for (int i = 0; i < n; i++) {
        s += va_arg(list, int);
        d += va_arg(list, double);
    }
    va_end(list);
    return s * 1000 + (long)d;
}

static jmp_buf back;
__attribute__((noinline)) static void deeper(int n) {
    for (volatile int i = 0; i < 20; i++)
        if (n == 0 && i == 10) longjmp(back, 42);
    deeper(n - 1);
    local++;
}

__attribute__((noinline)) static unsigned assembly(const unsigned *p, int n) {
    unsigned s = 0;
    for (int i = 0; i < n; i++) {
        unsigned v;
        __asm__("bswap %0; addl $1, %0\n\trorl $3, %0" : "=r"(v) : "0"(p[i]) : "cc");
        s += v;
        __asm__ volatile("" : "+r"(s) : : "memory");
    }
    return s;
}

// A loop inside, with numbered labels, and other sections.
__attribute__((noinline)) static long countdown(long n) {
    long rounds = 0;
    __asm__ volatile(
        "1: incq %0\n"
        "   .pushsection .data.extra, \"aw\"; .long 1; .popsection\n"
        "   decq %1\n"
        "   jnz 1b\n"
        : "+r"(rounds), "+r"(n) : : "cc");
    return rounds;
}

#ifndef __clang_analyzer__
__attribute__((noinline)) static int jumps(int n) {
    int rounds = 0;
again:
    rounds += 3;
    __asm__ goto("cmpl %1, %0; jl %l[again]" : : "r"(rounds), "r"(n) : "cc" : again);
    return rounds;
}
#endif

__asm__(".text\n.globl outside\n.type outside, @function\noutside:\n\txorl %eax, %eax\n2:\taddl %edi, %eax\n"
        "\tdecl %edi\n\tjnz 2b\n\tret\n.size outside, .-outside\n");
int outside(int n);

// Keeps what it does not touch: callers in the same file may count on it.
__attribute__((noinline)) static unsigned modest(unsigned x) {
    while (x > 100) x -= x >> 3;
    return x;
}
__attribute__((noinline)) static unsigned caller(unsigned a, unsigned b, unsigned c, unsigned d, unsigned e) {
    unsigned s = 0;
    for (unsigned i = 0; i < 30; i++) {
        s += modest(a * i + 1000);
        s = s * 3 + b * c - d + e;
        a += s & 7, b ^= d, c += e, d -= i, e += 11;
    }
    return s + a + b + c + d + e;
}

typedef int (*operation)(int);
static int twice(int x) { return x * 2; }
static int square(int x) { return x * x & 0xffff; }
__attribute__((noinline)) static int apply(operation const *with, int count, int x) {
    for (int i = 0; i < 50; i++) x = with[(unsigned)x % count](x) + i;
    return x;
}

__attribute__((noinline)) static long locals(int n) {
    for (int i = 0; i < n; i++) {
        counted += i ^ local;
        if (i % 7 == 0) local++;
    }
    return counted;
}

static void *thread(void *unused) {
    (void)unused;
    return (void *)locals(300);
}

__attribute__((noinline)) static int shifts(const int *p, int n) {
    int s = 0;
    for (int i = 0; i < n; i++) s = (s << (p[i] & 7)) ^ (s >> (p[i] & 3)) ^ p[i];
    return s;
}

__attribute__((noinline)) static unsigned frame(unsigned n) {
    unsigned char buffer[n]; // A frame of variable size: found through rbp.
    for (unsigned i = 0; i < n; i++) buffer[i] = (unsigned char)(i * i);
    unsigned s = 0;
    for (unsigned i = 0; i < n; i++) s = s * 31 + buffer[n - 1 - i];
    return s;
}

int main(void) {
    printf("addup %ld\n", addup(4, 1, 2.0, 3, 4.0, 5, 6.0, 7, 8.0));
    int value = setjmp(back);
    if (value == 0) deeper(5);
    printf("longjmp %d local %d\n", value, local);
    unsigned data[33];
    for (int i = 0; i < 33; i++) data[i] = i * 2654435761u;
    printf("assembly %u countdown %ld outside %d\n", assembly(data, 33), countdown(1000), outside(100));
    printf("jumps %d caller %u\n", jumps(100), caller(1, 2, 3, 4, 5));
    operation with[] = {twice, square, twice};
    printf("apply %d\n", apply(with, 3, 12345));
    printf("locals %ld\n", locals(100));
    pthread_t t;
    void *result;
    pthread_create(&t, NULL, thread, NULL);
    pthread_join(t, &result);
    printf("thread %ld here %ld\n", (long)result, counted);
    printf("shifts %d frame %u\n", shifts((int *)data, 33), frame(200));
    return 0;
}
