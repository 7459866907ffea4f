/* Gaussian elimination with partial pivoting: floating point on rows. */
#include "start.h"

#ifndef SIZE
#define SIZE 60
#endif

#ifndef ROUNDS
#define ROUNDS 1
#endif

static double a[SIZE][SIZE + 1];

static unsigned long seed = 1325;

static double next(void) {
    seed = 3125 * seed % 65536;
    return ((double)seed - 32768.0) / 16384.0;
}

static double magnitude(double x) { return x < 0 ? -x : x; }

static double solve(void) {
    for (int i = 0; i < SIZE; i++) {
        double sum = 0;
        for (int j = 0; j < SIZE; j++) sum += a[i][j] = next();
        a[i][SIZE] = sum; /* all unknowns are 1 */
    }
    for (int k = 0; k < SIZE; k++) {
        int pivot = k;
        for (int i = k + 1; i < SIZE; i++)
            if (magnitude(a[i][k]) > magnitude(a[pivot][k])) pivot = i;
        for (int j = k; j <= SIZE; j++) {
            double t = a[k][j];
            a[k][j] = a[pivot][j];
            a[pivot][j] = t;
        }
        for (int i = k + 1; i < SIZE; i++) {
            double factor = a[i][k] / a[k][k];
            for (int j = k; j <= SIZE; j++) a[i][j] -= factor * a[k][j];
        }
    }
    double error = 0;
    for (int i = SIZE - 1; i >= 0; i--) {
        for (int j = i + 1; j < SIZE; j++) a[i][SIZE] -= a[i][j] * a[j][SIZE];
        a[i][SIZE] /= a[i][i];
        error += magnitude(a[i][SIZE] - 1);
    }
    return error;
}

static int run(void) {
    double error = 0;
    for (int round = 0; round < ROUNDS; round++) error += solve();
    say("linpack, error in units of 1e-18:", (unsigned long)(error * 1e18));
    return error > 1e-9;
}
