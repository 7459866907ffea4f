// Compresses made-up text at several levels, with and without a dictionary, and decompresses it.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zdict.h>
#include <zstd.h>

enum { SIZE = 400000, PARTS = 400 };
static char text[SIZE], packed[SIZE * 2], again[SIZE], dictionary[8192];

static uint64_t digest(const char *p, size_t n) {
    uint64_t s = 1469598103934665603u;
    for (size_t i = 0; i < n; i++) s = (s ^ (unsigned char)p[i]) * 1099511628211u;
    return s;
}

static void check(size_t code, const char *what) {
    if (!ZSTD_isError(code)) return;
    printf("%s: %s\n", what, ZSTD_getErrorName(code));
    exit(1);
}

static int once(void) {
    uint64_t state = 88172645463325252u;
    for (size_t n = 0; n < SIZE;) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        // Words that return, numbers, and now and then noise.
        size_t length = 2 + state % 9, from = state >> 20 & 0x3fff;
        for (size_t i = 0; i < length && n < SIZE; i++, n++)
            text[n] = n > from + 20 && state % 5 ? text[n - from - 10] : (char)(state >> (i * 7 & 31));
    }
    static const int levels[] = {-5, 1, 3, 6, 9, 13, 17, 19};
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        size_t size = levels[i] > 12 ? SIZE / 4 : SIZE;
        size_t n = ZSTD_compress(packed, sizeof packed, text, size, levels[i]);
        check(n, "compress");
        size_t m = ZSTD_decompress(again, SIZE, packed, n);
        check(m, "decompress");
        printf("%d: %zu %016lx %s\n", levels[i], n, (unsigned long)digest(packed, n),
               m == size && !memcmp(text, again, m) ? "same" : "different");
    }
    size_t sizes[PARTS];
    for (int i = 0; i < PARTS; i++) sizes[i] = SIZE / PARTS;
    size_t length = ZDICT_trainFromBuffer(dictionary, sizeof dictionary, text, sizes, PARTS);
    printf("dictionary: %zu %016lx\n", length, (unsigned long)digest(dictionary, ZDICT_isError(length) ? 0 : length));
    ZSTD_CCtx *c = ZSTD_createCCtx();
    ZSTD_DCtx *d = ZSTD_createDCtx();
    ZSTD_CCtx_setParameter(c, ZSTD_c_checksumFlag, 1);
    ZSTD_CCtx_setParameter(c, ZSTD_c_enableLongDistanceMatching, 1);
    if (!ZDICT_isError(length)) {
        check(ZSTD_CCtx_loadDictionary(c, dictionary, length), "dictionary");
        check(ZSTD_DCtx_loadDictionary(d, dictionary, length), "dictionary");
    }
    // As a stream, in pieces.
    ZSTD_inBuffer in = {text, SIZE, 0};
    ZSTD_outBuffer out = {packed, sizeof packed, 0};
    for (size_t end = 0; in.pos < SIZE || end;) {
        in.size = in.pos + 3000 < SIZE ? in.pos + 3000 : SIZE;
        end = ZSTD_compressStream2(c, &out, &in, in.size == SIZE ? ZSTD_e_end : ZSTD_e_continue);
        check(end, "stream");
        if (in.size == SIZE && !end) break;
    }
    size_t m = ZSTD_decompressDCtx(d, again, SIZE, packed, out.pos);
    check(m, "decompress");
    printf("stream: %zu %s\n", out.pos, m == SIZE && !memcmp(text, again, m) ? "same" : "different");
    ZSTD_freeCCtx(c);
    ZSTD_freeDCtx(d);
    return 0;
}

// SCALE: how often; at 1 for about a second, without it once.
int main(int argc, char **argv) {
    double scale = argc > 1 ? atof(argv[1]) : 0.0;
    for (int rounds = 1 + (int)(3 * scale); rounds > 0; rounds--)
        if (once())
            return 1;
    return 0;
}
