// Radix sort of 32-bit keys, 11 bits at a time, with each key's old place.
#include "common.h"

enum { BITS = 11, BUCKETS = 1 << BITS, PASSES = 3 };

typedef struct {
    uint32_t key, place;
} Item;

static void sort_by(const Item *from, Item *to, size_t items, int shift) {
    size_t count[BUCKETS] = {0}, total = 0;
    for (size_t i = 0; i < items; i++)
        count[from[i].key >> shift & (BUCKETS - 1)]++;
    for (int b = 0; b < BUCKETS; b++) {
        size_t here = count[b];
        count[b] = total;
        total += here;
    }
    for (size_t i = 0; i < items; i++)
        to[count[from[i].key >> shift & (BUCKETS - 1)]++] = from[i];
}

int main(int argc, char **argv) {
    double scale = start(argc, argv, "radix");
    size_t items = 150000, rounds = at_least(1, 1050 * scale);
    uint64_t rng = 6, sum = 0;
    uint32_t *keys = allocate(items, sizeof *keys);
    Item *a = allocate(items, sizeof *a), *b = allocate(items, sizeof *b);
    for (size_t round = 0; round < rounds; round++) {
        // Keys of many or of few bits.
        for (size_t i = 0; i < items; i++) {
            keys[i] = (uint32_t)rng_next(&rng) >> round % 24;
            a[i] = (Item){keys[i], (uint32_t)i};
        }
        for (int pass = 0; pass < PASSES; pass++) {
            sort_by(a, b, items, pass * BITS);
            Item *swap = a;
            a = b, b = swap;
        }
        // Sorted, equal keys in their old order: then no place can be there twice, and this is a permutation.
        for (size_t i = 0; i < items; i++) {
            if (a[i].place >= items || keys[a[i].place] != a[i].key)
                fail("item %zu has the key of another", i);
            if (i && (a[i - 1].key > a[i].key || (a[i - 1].key == a[i].key && a[i - 1].place >= a[i].place)))
                fail("items %zu and %zu are not in order", i - 1, i);
        }
        for (size_t i = 0; i < items; i += 97)
            sum = mix(sum, (uint64_t)a[i].key << 32 | a[i].place);
    }
    free(keys);
    free(a);
    free(b);
    return finish(sum);
}
