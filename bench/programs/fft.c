// The six-step fast Fourier transform: a square matrix of complex numbers, transposed thrice, with transforms of rows.
#include "common.h"

enum { TILE = 16 };

typedef struct {
    double re, im;
} Complex;

static size_t side;
static Complex *roots; // of unity, side * side of them

static void transpose(Complex *restrict to, const Complex *restrict from) {
    for (size_t i = 0; i < side; i += TILE)
        for (size_t j = 0; j < side; j += TILE)
            for (size_t k = i; k < i + TILE; k++)
                for (size_t l = j; l < j + TILE; l++)
                    to[l * side + k] = from[k * side + l];
}

static void row_transform(Complex *row) {
    for (size_t i = 1, j = 0; i < side; i++) {
        size_t bit = side >> 1;
        for (; j & bit; bit >>= 1)
            j ^= bit;
        j ^= bit;
        if (i < j) {
            Complex swap = row[i];
            row[i] = row[j], row[j] = swap;
        }
    }
    for (size_t half = 1; half < side; half *= 2) {
        size_t stride = side * side / (2 * half);
        for (size_t block = 0; block < side; block += 2 * half)
            for (size_t k = 0; k < half; k++) {
                Complex w = roots[k * stride], *p = &row[block + k], *q = p + half;
                Complex t = {q->re * w.re - q->im * w.im, q->re * w.im + q->im * w.re};
                *q = (Complex){p->re - t.re, p->im - t.im};
                *p = (Complex){p->re + t.re, p->im + t.im};
            }
    }
}

// The transform of data, in place; with another space of the same size.
static void transform(Complex *data, Complex *space) {
    transpose(space, data);
    for (size_t i = 0; i < side; i++) {
        row_transform(space + i * side);
        for (size_t j = 0; j < side; j++) {
            Complex w = roots[i * j], *p = &space[i * side + j];
            *p = (Complex){p->re * w.re - p->im * w.im, p->re * w.im + p->im * w.re};
        }
    }
    transpose(data, space);
    for (size_t i = 0; i < side; i++)
        row_transform(data + i * side);
    transpose(space, data);
    memcpy(data, space, side * side * sizeof *data);
}

static double power(const Complex *data) {
    double sum = 0.0;
    for (size_t i = 0; i < side * side; i++)
        sum += data[i].re * data[i].re + data[i].im * data[i].im;
    return sum;
}

int main(int argc, char **argv) {
    double scale = start(argc, argv, "fft");
    double wanted = 50.0 * 512 * 512 * scale;
    side = 512;
    while (side > 32 && (double)(side * side) > wanted / 4)
        side /= 2;
    size_t n = side * side, pairs = at_least(1, wanted / (double)n);
    roots = allocate(n, sizeof *roots);
    for (size_t i = 0; i < n; i++)
        roots[i] = (Complex){cos(-2.0 * PI * (double)i / (double)n), sin(-2.0 * PI * (double)i / (double)n)};
    Complex *input = allocate(n, sizeof *input), *data = allocate(n, sizeof *data), *space = allocate(n, sizeof *space);
    uint64_t rng = 7;
    for (size_t i = 0; i < n; i++) {
        input[i].re = data[i].re = rng_between(&rng, -1.0, 1.0);
        input[i].im = data[i].im = rng_between(&rng, -1.0, 1.0);
    }
    double before = power(data), first = 0.0;
    for (size_t pair = 0; pair < pairs; pair++) {
        transform(data, space);
        double after = power(data) / (double)n;
        if (!(fabs(after - before) < 1e-9 * before))
            fail("transform %zu: the power went from %g to %g", pair, before, after);
        if (pair == 0)
            first = data[1].re;
        // Forth again, of the conjugate, is back.
        for (size_t i = 0; i < n; i++)
            data[i].im = -data[i].im;
        transform(data, space);
        for (size_t i = 0; i < n; i++)
            data[i] = (Complex){data[i].re / (double)n, -data[i].im / (double)n};
    }
    double direct = 0.0; // the first coefficient by its definition
    for (size_t i = 0; i < n; i++)
        direct += input[i].re * roots[i].re - input[i].im * roots[i].im;
    if (!(fabs(direct - first) < 1e-8 * sqrt((double)n)))
        fail("the first coefficient is %g instead of %g", first, direct);
    for (size_t i = 0; i < n; i++)
        if (!(fabs(data[i].re - input[i].re) + fabs(data[i].im - input[i].im) < 1e-10))
            fail("number %zu did not come back", i);
    return finish_rounded(first);
}
