// What the programs share: their argument, random input, checksums, the line they print.
#ifndef QUAVER_PROGRAMS_COMMON_H
#define QUAVER_PROGRAMS_COMMON_H

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PI 3.14159265358979323846

static const char *program_name = "?";

// Says on stderr what is wrong and exits with 1.
__attribute__((format(printf, 1, 2))) static inline _Noreturn void fail(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fprintf(stderr, "%s: ", program_name);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

// The scale, by which the work grows: the only argument, 1 without one. Exits with 2 where it is none.
static inline double start(int argc, char **argv, const char *name) {
    program_name = name;
    if (argc > 2) {
        fprintf(stderr, "%s: %d arguments; usage: %s [SCALE]\n", name, argc - 1, name);
        exit(2);
    }
    if (argc < 2)
        return 1.0;
    char *end;
    double scale = strtod(argv[1], &end);
    if (end == argv[1] || *end || !(scale >= 0.001 && scale <= 100.0)) {
        fprintf(stderr, "%s: scale \"%s\" is not a number from 0.001 to 100\n", name, argv[1]);
        exit(2);
    }
    return scale;
}

// amount rounded, but not less than least.
static inline size_t at_least(size_t least, double amount) {
    size_t n = (size_t)(amount + 0.5);
    return n < least ? least : n;
}

// Zeroed memory.
static inline void *allocate(size_t count, size_t size) {
    void *memory = calloc(count ? count : 1, size);
    if (!memory)
        fail("no memory for %zu x %zu bytes", count, size);
    return memory;
}

// splitmix64 with its state in *rng.
static inline uint64_t rng_next(uint64_t *rng) {
    uint64_t z = *rng += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

// From 0 to n - 1.
static inline uint32_t rng_below(uint64_t *rng, uint32_t n) {
    return (uint32_t)((rng_next(rng) >> 32) * n >> 32);
}

static inline double rng_between(uint64_t *rng, double low, double high) {
    return low + (high - low) * ((double)(rng_next(rng) >> 11) * 0x1p-53);
}

// A checksum in which the order counts.
static inline uint64_t mix(uint64_t sum, uint64_t value) {
    sum = (sum ^ value) * 0x9e3779b97f4a7c15u;
    return sum ^ sum >> 29;
}

static inline uint64_t mix_double(uint64_t sum, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return mix(sum, bits);
}

// The program's line, for results that are the same to the last bit with every compiler.
static inline int finish(uint64_t checksum) {
    if (printf("%s %016" PRIx64 "\n", program_name, checksum) < 0 || fflush(stdout))
        fail("cannot write to stdout");
    return 0;
}

// The program's line, for results that depend on the last bits of libm.
static inline int finish_rounded(double result) {
    if (printf("%s %.9g\n", program_name, result) < 0 || fflush(stdout))
        fail("cannot write to stdout");
    return 0;
}

#endif
