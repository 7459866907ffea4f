// Floating point of all kinds: SSE, AVX, x87, AVX-512 where the machine has it.
#include <complex.h>
#include <immintrin.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define N 103
static float a[N], b[N];
static double c[N], d[N];

__attribute__((noinline)) static double dot(const double *x, const double *y, int n) {
    double s = 0;
    for (int i = 0; i < n; i++) s += x[i] * y[i];
    return s;
}

__attribute__((noinline)) static void scale(float *x, float f, int n) {
    for (int i = 0; i < n; i++) x[i] = x[i] * f + 0.5f;
}

__attribute__((noinline, target("avx2,fma"))) static float avx(const float *x, const float *y, int n) {
    __m256 s = _mm256_setzero_ps();
    int i = 0;
    for (; i + 8 <= n; i += 8) s = _mm256_fmadd_ps(_mm256_loadu_ps(x + i), _mm256_loadu_ps(y + i), s);
    float parts[8], r = 0;
    _mm256_storeu_ps(parts, s);
    for (int k = 0; k < 8; k++) r += parts[k];
    for (; i < n; i++) r += x[i] * y[i];
    return r;
}

// A wide value that waits in a register while another loop runs.
__attribute__((noinline, target("avx2"))) static __m256 waits(__m256 v, volatile int *n) {
    while (*n) --*n;
    return v;
}
__attribute__((noinline, target("avx2"))) static void wide(float *out) {
    volatile int n = 30;
    __m256 v = waits(_mm256_setr_ps(1, 2, 3, 4, 5, 6, 7, 8), &n);
    n = 10;
    v = _mm256_add_ps(v, waits(v, &n));
    _mm256_storeu_ps(out, v);
}

__attribute__((noinline, target("avx512f"))) static float avx512(const float *x, int n) {
    __m512 s = _mm512_setzero_ps();
    for (int i = 0; i < n; i += 16) {
        __mmask16 m = n - i >= 16 ? 0xffff : (__mmask16)((1u << (n - i)) - 1);
        s = _mm512_mask_add_ps(s, m, s, _mm512_maskz_loadu_ps(m, x + i));
    }
    return _mm512_reduce_add_ps(s);
}

__attribute__((noinline)) static long double series(int n) {
    long double s = 0;
    for (int i = 1; i < n; i++) s += 1.0L / ((long double)i * i);
    return s;
}

// A result on the x87 stack that waits while a loop runs.
__attribute__((noinline)) static long double keeps(volatile int *n) {
    long double r = series(20);
    while (*n) --*n;
    return r;
}

__attribute__((noinline)) static double untouched(double x, volatile int *n) {
    while (*n) --*n;
    return x;
}

__attribute__((noinline)) static double complex turn(double complex z, int n) {
    double complex s = 0;
    for (int i = 0; i < n; i++) s = s * z + 1.0;
    return s;
}

__attribute__((noinline)) static void multiply(double (*z)[8], double (*x)[8], double (*y)[8]) {
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++) {
            double s = 0;
            for (int k = 0; k < 8; k++) s += x[i][k] * y[k][j];
            z[i][j] = s;
        }
}

__attribute__((noinline)) static int classify(const double *x, int n) {
    int counts[3] = {0};
    for (int i = 0; i < n; i++) {
        if (x[i] < 0.25) counts[0]++;
        else if (x[i] <= 0.75) counts[1]++;
        else counts[2]++;
    }
    return counts[0] * 10000 + counts[1] * 100 + counts[2];
}

int main(void) {
    for (int i = 0; i < N; i++) {
        a[i] = i * 0.25f, b[i] = (N - i) * 0.5f;
        c[i] = i / 103.0, d[i] = 1.0 / (i + 1);
    }
    printf("dot %.12g\n", dot(c, d, N));
    scale(a, 1.5f, N);
    printf("scaled %.7g %.7g\n", (double)a[3], (double)a[100]);
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        float out[8];
        wide(out);
        printf("avx %.7g wide %g %g\n", (double)avx(a, b, N), (double)out[0], (double)out[7]);
    }
    if (__builtin_cpu_supports("avx512f")) printf("avx512 %.7g\n", (double)avx512(a, N));
    volatile int n = 25;
    printf("series %.18Lg\n", series(1000));
    printf("keeps %.18Lg\n", keeps(&n));
    n = 25;
    printf("untouched %.12g\n", untouched(2.75, &n));
    double complex z = turn(0.5 + 0.25 * I, 60);
    printf("complex %.12g %.12g\n", creal(z), cimag(z));
    static double x[8][8], y[8][8], r[8][8];
    for (int i = 0; i < 64; i++) x[i / 8][i % 8] = i % 5, y[i / 8][i % 8] = i % 7;
    multiply(r, x, y);
    printf("multiply %g %g\n", r[3][4], r[7][7]);
    printf("classify %d\n", classify(c, N));
    return 0;
}
