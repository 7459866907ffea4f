// Random bytes to base64 and back.
#include "common.h"

enum { BYTES = 30000 };

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static uint8_t values[256];

static size_t encode(char *out, const uint8_t *in, size_t length) {
    size_t at = 0;
    for (size_t i = 0; i + 2 < length; i += 3) {
        uint32_t bits = (uint32_t)in[i] << 16 | (uint32_t)in[i + 1] << 8 | in[i + 2];
        for (int k = 18; k >= 0; k -= 6)
            out[at++] = letters[bits >> k & 63];
    }
    return at;
}

static size_t decode(uint8_t *out, const char *in, size_t length) {
    size_t at = 0;
    for (size_t i = 0; i + 3 < length; i += 4) {
        uint32_t bits = 0;
        for (size_t k = 0; k < 4; k++)
            bits = bits << 6 | values[(uint8_t)in[i + k]];
        out[at++] = (uint8_t)(bits >> 16), out[at++] = (uint8_t)(bits >> 8), out[at++] = (uint8_t)bits;
    }
    return at;
}

int main(int argc, char **argv) {
    double scale = start(argc, argv, "base64");
    size_t rounds = at_least(1, 12000 * scale);
    uint8_t *bytes = allocate(BYTES, 1), *back = allocate(BYTES, 1);
    char *text = allocate(BYTES / 3, 4);
    uint64_t rng = 42, sum = 0;
    for (size_t i = 0; i < 64; i++)
        values[(uint8_t)letters[i]] = (uint8_t)i;
    for (size_t i = 0; i < BYTES; i++)
        bytes[i] = (uint8_t)rng_next(&rng);
    for (size_t round = 0; round < rounds; round++) {
        bytes[round % BYTES]++;
        size_t length = encode(text, bytes, BYTES);
        if (length != BYTES / 3 * 4 || decode(back, text, length) != BYTES || memcmp(bytes, back, BYTES))
            fail("round %zu: other bytes come back", round);
        sum = mix(sum, (uint8_t)text[round % length]);
    }
    return finish(sum);
}
