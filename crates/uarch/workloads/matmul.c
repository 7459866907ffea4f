/* Multiplies matrices in the plain order of loops: two loads and a dependent addition in the innermost one. */
#include "start.h"

#ifndef SIZE
#define SIZE 1
#endif
#ifndef N
#define N 64
#endif

static double a[N][N], b[N][N], c[N][N];

__attribute__((noinline, optimize("no-tree-vectorize"))) static void multiply(void) {
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            double sum = 0;
            for (int k = 0; k < N; k++) {
                sum += a[i][k] * b[k][j];
                POINT();
            }
            c[i][j] = sum;
        }
}

static int run(void) {
    unsigned long sum = 0;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) a[i][j] = (i * 3 + j) % 17, b[i][j] = (i + j * 5) % 13;
    for (int round = 0; round < SIZE; round++) {
        multiply();
        for (int i = 0; i < N; i++) sum = sum * 31 + (unsigned long)c[i][(i + round) % N];
        a[round % N][round / N % N] += 1;
    }
    say("matmul", sum);
    return 0;
}
