// Principal components: the means and covariances of a matrix's rows in integers, then the first eigenvector.
#include "common.h"

enum { ITERATIONS = 40, FACTORS = 3 };

static size_t rows, columns;
static int32_t *data;
static int64_t *covariance;

static void subtract_means(void) {
    for (size_t i = 0; i < rows; i++) {
        int64_t sum = 0;
        for (size_t k = 0; k < columns; k++)
            sum += data[i * columns + k];
        int32_t mean = (int32_t)(sum / (int64_t)columns);
        for (size_t k = 0; k < columns; k++)
            data[i * columns + k] -= mean;
    }
}

static void covariances(void) {
    for (size_t i = 0; i < rows; i++)
        for (size_t j = i; j < rows; j++) {
            const int32_t *a = data + i * columns, *b = data + j * columns;
            int64_t sum = 0;
            for (size_t k = 0; k < columns; k++)
                sum += a[k] * b[k];
            covariance[i * rows + j] = covariance[j * rows + i] = sum;
        }
}

int main(int argc, char **argv) {
    double scale = start(argc, argv, "pca");
    rows = at_least(20, 1150 * cbrt(scale));
    columns = at_least(30, 3200 * cbrt(scale));
    data = allocate(rows * columns, sizeof *data);
    covariance = allocate(rows * rows, sizeof *covariance);
    // A few hidden factors, of which the first counts most, and noise.
    uint64_t rng = 13;
    int32_t *factor = allocate(columns * FACTORS, sizeof *factor);
    for (size_t k = 0; k < columns * FACTORS; k++)
        factor[k] = (int32_t)rng_below(&rng, 41) - 20;
    for (size_t i = 0; i < rows; i++) {
        int32_t weight[FACTORS];
        for (int f = 0; f < FACTORS; f++)
            weight[f] = (int32_t)rng_below(&rng, (uint32_t)(13 >> f)) - (6 >> f);
        for (size_t k = 0; k < columns; k++) {
            int32_t value = 500 + (int32_t)rng_below(&rng, 21);
            for (int f = 0; f < FACTORS; f++)
                value += weight[f] * factor[k * FACTORS + (size_t)f];
            data[i * columns + k] = value;
        }
    }
    subtract_means();
    covariances();
    // For signs s: s C s is the sum of squares of the rows' sum with these signs.
    int64_t *signs = allocate(rows, sizeof *signs), quadratic = 0, squares = 0;
    for (size_t i = 0; i < rows; i++)
        signs[i] = rng_below(&rng, 2) ? 1 : -1;
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < rows; j++)
            quadratic += signs[i] * signs[j] * covariance[i * rows + j];
    for (size_t k = 0; k < columns; k++) {
        int64_t sum = 0;
        for (size_t i = 0; i < rows; i++)
            sum += signs[i] * data[i * columns + k];
        squares += sum * sum;
    }
    if (quadratic != squares)
        fail("the covariances give %" PRId64 " instead of %" PRId64, quadratic, squares);
    double *vector = allocate(rows, sizeof *vector), *next = allocate(rows, sizeof *next);
    for (size_t i = 0; i < rows; i++)
        vector[i] = rng_between(&rng, -1.0, 1.0);
    double value = 0.0, off = 0.0;
    for (int iteration = 0; iteration < ITERATIONS; iteration++) {
        double length = 0.0;
        for (size_t i = 0; i < rows; i++) {
            next[i] = 0.0;
            for (size_t j = 0; j < rows; j++)
                next[i] += (double)covariance[i * rows + j] * vector[j];
            length += next[i] * next[i];
        }
        value = sqrt(length), off = 0.0;
        for (size_t i = 0; i < rows; i++) {
            double now = next[i] / value;
            off += (now - vector[i]) * (now - vector[i]);
            vector[i] = now;
        }
    }
    if (!(off < 1e-12))
        fail("the eigenvector still moves by %g", sqrt(off));
    uint64_t sum = mix_double(0, value);
    for (size_t i = 0; i < rows * rows; i++)
        sum = mix(sum, (uint64_t)covariance[i]);
    return finish(sum);
}
