// Which words of a text are among a few that are known only scrambled: scrambles each and compares, for many salts.
#include "common.h"

enum { SALTS = 56, KEYS = 4, WIDTH = 16 };

static const char *const keys[KEYS] = {"helloworld", "howareyou", "ferrari", "whotheman"};

static void scramble(uint8_t out[WIDTH], const char *word, size_t length, uint8_t salt) {
    memset(out, 0, WIDTH);
    uint8_t last = salt;
    for (size_t i = 0; i < length; i++) {
        last = (uint8_t)((last << 3 | last >> 5) ^ (uint8_t)(word[i] + salt));
        out[i] = last;
    }
}

static void count_keys(const char *text, size_t length, uint8_t salt, uint64_t found[KEYS]) {
    uint8_t secret[KEYS][WIDTH], scrambled[WIDTH];
    for (int k = 0; k < KEYS; k++)
        scramble(secret[k], keys[k], strlen(keys[k]), salt);
    for (size_t from = 0; from < length;) {
        size_t to = from;
        while (text[to] != '\n')
            to++;
        if (to - from <= WIDTH) {
            scramble(scrambled, text + from, to - from, salt);
            for (int k = 0; k < KEYS; k++)
                found[k] += !memcmp(scrambled, secret[k], WIDTH);
        }
        from = to + 1;
    }
}

int main(int argc, char **argv) {
    double scale = start(argc, argv, "string_match");
    size_t length = at_least(200, 11000000 * scale), at = 0;
    char *text = allocate(length + 2 * WIDTH, 1);
    uint64_t rng = 14, planted[KEYS] = {0}, sum = 0;
    while (at < length) {
        uint32_t kind = rng_below(&rng, 64);
        if (kind < KEYS) {
            planted[kind]++;
            size_t size = strlen(keys[kind]);
            memcpy(text + at, keys[kind], size);
            at += size;
        } else { // capitals, so never a key; some are almost one, some too long
            size_t size = 3 + kind % 15;
            uint64_t bits = rng_next(&rng);
            if (kind >= 60) {
                size = strlen(keys[kind - 60]);
                memcpy(text + at, keys[kind - 60], size);
                text[at + size - 1] = '!';
            } else {
                for (size_t i = 0; i < size; i++, bits = bits >> 3 | bits << 61)
                    text[at + i] = (char)('A' + bits % 26);
            }
            at += size;
        }
        text[at++] = '\n';
    }
    for (int salt = 1; salt <= SALTS; salt++) {
        uint64_t found[KEYS] = {0};
        count_keys(text, at, (uint8_t)(salt * 5), found);
        for (int k = 0; k < KEYS; k++) {
            if (found[k] != planted[k])
                fail("salt %d: %" PRIu64 " times %s instead of %" PRIu64, salt, found[k], keys[k], planted[k]);
            sum = mix(sum, found[k]);
        }
    }
    free(text);
    return finish(sum);
}
