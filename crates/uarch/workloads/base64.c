/* Encodes a buffer in base64, over and over: a short loop of loads from a table and of shifts. */
#include "start.h"

#ifndef SIZE
#define SIZE 4
#endif
#ifndef BYTES
#define BYTES 12288
#endif

typedef unsigned char u8;

static u8 from[BYTES], to[BYTES / 3 * 4];

__attribute__((noinline)) static void encode(const u8 *p, u8 *q, unsigned long n) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (unsigned long i = 0; i < n; i += 3, q += 4) {
        unsigned v = (unsigned)p[i] << 16 | (unsigned)p[i + 1] << 8 | p[i + 2];
        q[0] = (u8)digits[v >> 18];
        q[1] = (u8)digits[v >> 12 & 63];
        q[2] = (u8)digits[v >> 6 & 63];
        q[3] = (u8)digits[v & 63];
        POINT();
    }
}

static int run(void) {
    unsigned long sum = 0;
    for (int i = 0; i < BYTES; i++) from[i] = (u8)(i * 31 + (i >> 5));
    for (int round = 0; round < SIZE; round++) {
        encode(from, to, BYTES);
        for (int i = 0; i < BYTES / 3 * 4; i += 64) sum = sum * 31 + to[i];
        from[round % BYTES] ^= (u8)sum;
    }
    say("base64", sum);
    return 0;
}
