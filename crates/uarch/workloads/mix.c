/* For the comparison with a real CPU: one piece of many kinds of code that gcc makes. */
#include "start.h"

#ifndef SIZE
#define SIZE 2
#endif

typedef unsigned char u8;
typedef unsigned long u64;

static u8 text[4096], out[8192];
static float plane[256];
static short samples[256];

__attribute__((noinline)) static u64 hash(const u8 *p, u64 n) {
    u64 h = 0xcbf29ce484222325ul;
    while (n--) h = (h ^ *p++) * 0x100000001b3ul;
    return h;
}

__attribute__((noinline)) static u64 base64(const u8 *p, u64 n, u8 *to) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    u8 *first = to;
    for (u64 i = 0; i + 2 < n; i += 3) {
        unsigned v = (unsigned)p[i] << 16 | (unsigned)p[i + 1] << 8 | p[i + 2];
        for (int s = 18; s >= 0; s -= 6) *to++ = (u8)digits[v >> s & 63];
    }
    return (u64)(to - first);
}

__attribute__((noinline)) static u64 divisions(u64 seed) {
    u64 sum = 0;
    for (int i = 1; i < 60; i++) {
        sum += seed / (u64)i + seed % (u64)(i * 7 + 3);
        sum += (u64)((long)-seed / (i * 3 + 1)) + (u64)((unsigned)seed / (unsigned)i);
        sum ^= (u64)((__int128)(long)seed * (long)sum >> 64) + (u64)((unsigned __int128)seed * sum >> 64);
        sum += (u64)__builtin_popcountl(sum) + (u64)__builtin_clzl(sum | 1) + (u64)__builtin_ctzl(sum | 1ul << 63);
        seed = seed << 13 | seed >> 51;
    }
    return sum;
}

__attribute__((noinline)) static double waves(int rounds) {
    double x = 0.5, sum = 0;
    for (int i = 0; i < rounds; i++) {
        x = 3.7 * x * (1 - x);
        sum += x * x + (float)x * 0.25f + (double)(long)(x * 1000) - (double)(int)(sum / 3);
    }
    return sum;
}

__attribute__((noinline, optimize("O3"))) static u64 vectors(void) {
    int sum = 0;
    float total = 0;
    for (int i = 0; i < 256; i++) samples[i] = (short)(i * 397 - 30000), plane[i] = (float)i * 0.75f;
    for (int i = 0; i < 256; i++) sum += samples[i] * samples[i] + (samples[i] > 100 ? samples[i] : 3);
    for (int i = 0; i < 256; i++) plane[i] = plane[i] * plane[255 - i] + 1.5f / (plane[i] + 1);
    for (int i = 0; i < 256; i++) total += plane[i] > 9 ? plane[i] : -plane[i];
    for (int i = 0; i < 4096; i++) out[i] = (u8)(text[i] > 99 ? text[i] - 99 : text[i] * 3);
    return (u64)(unsigned)sum + (u64)total + hash(out, 4096);
}

static int choose(int kind, int x) {
    switch (kind) {
    case 0: return x + 1;
    case 1: return x * 5;
    case 2: return x ^ 0x55;
    case 3: return x >> 3;
    case 4: return -x;
    case 5: return x < 0 ? -1 : x > 9 ? 9 : x;
    case 6: return (x << 7) - x;
    default: return ~x;
    }
}

static int run(void) {
    u64 sum = 0;
    int (*volatile by_pointer)(int, int) = choose;
    for (int round = 0; round < SIZE; round++) {
        for (int i = 0; i < 4096; i++) text[i] = (u8)(i * 31 + round + (i >> 5));
        sum += hash(text, 400) + base64(text, 300, out) + hash(out, 400);
        sum ^= divisions(sum | 1);
        sum += (u64)(long)waves(100) + vectors();
        for (int i = 0, x = 77; i < 200; i++) x = by_pointer(i % 9, x), sum += (u64)(long)x;
    }
    say("mix", sum);
    return 0;
}
