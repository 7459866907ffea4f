// Histograms of a picture's three colours, while it gets brighter from pass to pass.
#include "common.h"

enum { PASSES = 60, STEP = 7 };

typedef struct {
    uint32_t count[3][256];
} Histogram;

static void count_colors(Histogram *h, const uint8_t *pixels, size_t count) {
    memset(h, 0, sizeof *h);
    for (size_t i = 0; i < count; i++) {
        h->count[0][pixels[3 * i]]++;
        h->count[1][pixels[3 * i + 1]]++;
        h->count[2][pixels[3 * i + 2]]++;
    }
}

static void brighten(uint8_t *bytes, size_t count) {
    for (size_t i = 0; i < count; i++)
        bytes[i] = (uint8_t)(bytes[i] + STEP);
}

int main(int argc, char **argv) {
    double scale = start(argc, argv, "histogram");
    size_t pixels = at_least(100, 10000000 * scale);
    uint8_t *picture = allocate(pixels, 3);
    uint64_t rng = 12, sum = 0;
    for (size_t i = 0; i < 3 * pixels; i += 4) { // sums of two random numbers: some colours are rarer
        uint64_t bits = rng_next(&rng);
        for (size_t k = 0; k < 4 && i + k < 3 * pixels; k++, bits >>= 16)
            picture[i + k] = (uint8_t)(((bits & 255) + (bits >> 8 & 255)) / 2);
    }
    Histogram first, now;
    count_colors(&first, picture, pixels);
    now = first;
    for (int c = 0; c < 3; c++) { // the colour's sum, from the picture and from its histogram
        uint64_t direct = 0, counted = 0;
        for (size_t i = 0; i < pixels; i++)
            direct += picture[3 * i + (size_t)c];
        for (int v = 0; v < 256; v++)
            counted += (uint64_t)v * first.count[c][v];
        if (counted != direct)
            fail("colour %d: a sum of %" PRIu64 " instead of %" PRIu64, c, counted, direct);
    }
    for (int pass = 1; pass <= PASSES; pass++) {
        brighten(picture, 3 * pixels);
        count_colors(&now, picture, pixels);
        for (int c = 0; c < 3; c++) {
            uint64_t total = 0;
            for (int v = 0; v < 256; v++) {
                total += now.count[c][v];
                if (now.count[c][(v + pass * STEP) & 255] != first.count[c][v])
                    fail("pass %d: colour %d, value %d is not where it should be", pass, c, v);
            }
            if (total != pixels)
                fail("pass %d: %" PRIu64 " of %zu pixels counted", pass, total, pixels);
        }
    }
    for (int c = 0; c < 3; c++)
        for (int v = 0; v < 256; v++)
            sum = mix(sum, now.count[c][v]);
    free(picture);
    return finish(sum);
}
