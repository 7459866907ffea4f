// Functions that keep more registers than usual, called through pointers: who calls counts on it.
#include <stdint.h>
#include <stdio.h>

__attribute__((ms_abi, noinline)) static double waits(const double *p, long n, volatile int *rounds) {
    while (*rounds) --*rounds;
    double s = 0;
    for (long i = 0; i < n; i++) s += p[i];
    volatile int again = 20;
    while (again) --again;
    return s * 0.5;
}
__attribute__((ms_abi)) double (*volatile pointer)(const double *, long, volatile int *) = waits;

__attribute__((ms_abi, noinline)) static double other(const double *p, long n) {
    double a = p[0], b = p[1], c = p[2];
    volatile int rounds;
    for (int i = 0; i < 10; i++) {
        rounds = 10;
        a += pointer(p, n, &rounds) * b;
        b -= c * 0.25;
    }
    return a + b + c;
}

#ifdef __clang__
#define MODEST __attribute__((preserve_most, noinline))
#else
#define MODEST __attribute__((no_caller_saved_registers, noinline, target("general-regs-only")))
#endif
MODEST static void counts(volatile unsigned *left) {
    while (*left) --*left;
}
MODEST void (*volatile modest)(volatile unsigned *) = counts;

__attribute__((noinline)) static unsigned keeps(unsigned a, unsigned b, unsigned c, unsigned d, unsigned e) {
    for (unsigned i = 0; i < 20; i++) {
        volatile unsigned left = 5;
        modest(&left);
        a = a * 3 + b, b ^= c + i, c += d, d = d << 1 ^ e, e += a;
    }
    return a ^ b ^ c ^ d ^ e;
}

int main(void) {
    double p[20];
    for (int i = 0; i < 20; i++) p[i] = i * 1.25 + 1;
    printf("other %.9f\n", other(p, 20));
    printf("keeps %u\n", keeps(1, 2, 3, 4, 5));
    // Jumps to labels whose addresses lie in a table.
    static void *const labels[] = {&&a, &&b, &&c};
    unsigned s = 1;
    int n = 0;
    goto *labels[0];
a:
    s = s * 3 + 1;
    if (++n > 200) goto end;
    goto *labels[s % 3];
b:
    s ^= n;
    if (++n > 200) goto end;
    goto *labels[(s >> 2) % 3];
c:
    s += 7;
    if (++n > 200) goto end;
    goto *labels[(s >> 1) % 3];
end:
    printf("labels %u\n", s);
    return 0;
}
