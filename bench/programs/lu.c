// LU decomposition of a dense matrix, block by block, each block contiguous. No pivoting: the diagonal dominates.
#include "common.h"

enum { BLOCK = 16 };

static size_t blocks;
static double *matrix;

static double *block_at(size_t i, size_t j) { return matrix + (i * blocks + j) * BLOCK * BLOCK; }

static void factor(double *a) {
    for (int k = 0; k < BLOCK; k++)
        for (int i = k + 1; i < BLOCK; i++) {
            double f = a[i * BLOCK + k] /= a[k * BLOCK + k];
            for (int j = k + 1; j < BLOCK; j++)
                a[i * BLOCK + j] -= f * a[k * BLOCK + j];
        }
}

// a = L^-1 a with the diagonal block's unit lower triangle.
static void solve_lower(double *restrict a, const double *restrict diagonal) {
    for (int k = 0; k < BLOCK; k++)
        for (int i = k + 1; i < BLOCK; i++)
            for (int j = 0; j < BLOCK; j++)
                a[i * BLOCK + j] -= diagonal[i * BLOCK + k] * a[k * BLOCK + j];
}

// a = a U^-1 with the diagonal block's upper triangle.
static void solve_upper(double *restrict a, const double *restrict diagonal) {
    for (int i = 0; i < BLOCK; i++)
        for (int k = 0; k < BLOCK; k++) {
            double f = a[i * BLOCK + k] /= diagonal[k * BLOCK + k];
            for (int j = k + 1; j < BLOCK; j++)
                a[i * BLOCK + j] -= f * diagonal[k * BLOCK + j];
        }
}

static void update(double *restrict c, const double *restrict a, const double *restrict b) {
    for (int i = 0; i < BLOCK; i++)
        for (int k = 0; k < BLOCK; k++) {
            double f = a[i * BLOCK + k];
            for (int j = 0; j < BLOCK; j++)
                c[i * BLOCK + j] -= f * b[k * BLOCK + j];
        }
}

static void decompose(void) {
    for (size_t k = 0; k < blocks; k++) {
        factor(block_at(k, k));
        for (size_t j = k + 1; j < blocks; j++)
            solve_lower(block_at(k, j), block_at(k, k));
        for (size_t i = k + 1; i < blocks; i++) {
            solve_upper(block_at(i, k), block_at(k, k));
            for (size_t j = k + 1; j < blocks; j++)
                update(block_at(i, j), block_at(i, k), block_at(k, j));
        }
    }
}

static double element(size_t i, size_t j) {
    return block_at(i / BLOCK, j / BLOCK)[i % BLOCK * BLOCK + j % BLOCK];
}

int main(int argc, char **argv) {
    double scale = start(argc, argv, "lu");
    blocks = at_least(4, 144 * cbrt(scale));
    size_t n = blocks * BLOCK;
    matrix = allocate(n * n, sizeof *matrix);
    double *wanted = allocate(n, sizeof *wanted), *x = allocate(n, sizeof *x);
    uint64_t rng = 8, sum = 0;
    for (size_t i = 0; i < n * n; i++)
        matrix[i] = rng_between(&rng, -1.0, 1.0);
    for (size_t i = 0; i < n; i++) {
        block_at(i / BLOCK, i / BLOCK)[i % BLOCK * (BLOCK + 1)] += (double)n;
        wanted[i] = rng_between(&rng, -1.0, 1.0);
    }
    // The right side of which the solution is known.
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            x[i] += element(i, j) * wanted[j];
    decompose();
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < i; j++)
            x[i] -= element(i, j) * x[j];
    for (size_t i = n; i-- > 0;) {
        for (size_t j = i + 1; j < n; j++)
            x[i] -= element(i, j) * x[j];
        x[i] /= element(i, i);
    }
    for (size_t i = 0; i < n; i++) {
        if (!(fabs(x[i] - wanted[i]) < 1e-11))
            fail("x[%zu] is %.15g instead of %.15g", i, x[i], wanted[i]);
        sum = mix_double(sum, x[i]);
    }
    return finish(sum);
}
