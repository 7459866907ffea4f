// Products of dense matrices, in tiles; checked by multiplying them with a vector.
#include "common.h"

enum { TILE = 48 };

static void multiply(double *restrict c, const double *restrict a, const double *restrict b, size_t n) {
    for (size_t kk = 0; kk < n; kk += TILE)
        for (size_t jj = 0; jj < n; jj += TILE)
            for (size_t i = 0; i < n; i++)
                for (size_t k = kk; k < kk + TILE; k++) {
                    double f = a[i * n + k];
                    for (size_t j = jj; j < jj + TILE; j++)
                        c[i * n + j] += f * b[k * n + j];
                }
}

static void apply(double *out, const double *matrix, const double *in, size_t n) {
    for (size_t i = 0; i < n; i++) {
        out[i] = 0.0;
        for (size_t j = 0; j < n; j++)
            out[i] += matrix[i * n + j] * in[j];
    }
}

int main(int argc, char **argv) {
    double scale = start(argc, argv, "matrix_multiply");
    size_t n = at_least(2, 14 * cbrt(sqrt(scale))) * TILE, products = at_least(1, 16 * sqrt(scale));
    double *a = allocate(n * n, sizeof *a), *b = allocate(n * n, sizeof *b), *c = allocate(n * n, sizeof *c);
    double *v = allocate(n, sizeof *v), *bv = allocate(n, sizeof *v), *abv = allocate(n, sizeof *v);
    double *cv = allocate(n, sizeof *v);
    // Small whole numbers: every sum is exact.
    uint64_t rng = 17, sum = 0;
    for (size_t i = 0; i < n * n; i++)
        b[i] = (double)rng_below(&rng, 201) - 100.0;
    for (size_t product = 0; product < products; product++) {
        for (size_t i = 0; i < n * n; i++) {
            a[i] = (double)rng_below(&rng, 201) - 100.0;
            c[i] = 0.0;
        }
        multiply(c, a, b, n);
        for (size_t i = 0; i < n; i++)
            v[i] = (double)rng_below(&rng, 1001) - 500.0;
        apply(bv, b, v, n);
        apply(abv, a, bv, n);
        apply(cv, c, v, n);
        for (size_t i = 0; i < n; i++)
            if (cv[i] != abv[i])
                fail("row %zu of product %zu is wrong", i, product);
        for (size_t i = 0; i < n * n; i++)
            sum = mix_double(sum, c[i]);
    }
    return finish(sum);
}
