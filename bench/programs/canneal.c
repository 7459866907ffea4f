// Simulated annealing of a chip's layout: swaps random elements where that makes their wires shorter, or hardly longer.
#include "common.h"

enum { TEMPERATURES = 40, WIRES = 3, MOST_NEAR = 12 };

typedef struct Element {
    int32_t x, y;
    int32_t wires;
    struct Element *wire[MOST_NEAR]; // either end knows the other
} Element;

static Element *elements;
static size_t side, count;

static int64_t length(const Element *a, const Element *b) { return labs((long)a->x - b->x) + labs((long)a->y - b->y); }

static void connect(Element *a, Element *b) {
    if (a == b || a->wires == MOST_NEAR || b->wires == MOST_NEAR)
        return;
    a->wire[a->wires++] = b;
    b->wire[b->wires++] = a;
}

// How much longer the wires of a are if it goes to the place of b, and b away from there.
static int64_t change(const Element *a, const Element *b) {
    int64_t sum = 0;
    for (int32_t i = 0; i < a->wires; i++) {
        const Element *other = a->wire[i];
        if (other != b)
            sum += length(b, other) - length(a, other);
    }
    return sum;
}

static int64_t total_length(void) {
    int64_t sum = 0;
    for (size_t i = 0; i < count; i++)
        for (int32_t w = 0; w < elements[i].wires; w++)
            sum += length(&elements[i], elements[i].wire[w]);
    return sum / 2;
}

int main(int argc, char **argv) {
    double scale = start(argc, argv, "canneal");
    side = at_least(8, 80 * sqrt(sqrt(scale)));
    count = side * side;
    size_t moves = at_least(1, 75 * sqrt(scale)) * count; // at each temperature
    elements = allocate(count, sizeof *elements);
    uint32_t *place = allocate(count, sizeof *place);
    uint64_t rng = 22;
    for (size_t i = 0; i < count; i++) { // random places
        place[i] = (uint32_t)i;
        size_t other = rng_below(&rng, (uint32_t)i + 1);
        place[i] = place[other];
        place[other] = (uint32_t)i;
    }
    for (size_t i = 0; i < count; i++) {
        elements[i].x = (int32_t)(place[i] % side), elements[i].y = (int32_t)(place[i] / side);
        for (int w = 0; w < WIRES; w++) { // most wires to elements with a number nearby: there are good layouts
            size_t dx = rng_below(&rng, 5), dy = rng_below(&rng, 5);
            size_t other = w ? (i + dx + dy * side) % count : rng_below(&rng, (uint32_t)count);
            if (w || i % 8 == 0)
                connect(&elements[i], &elements[other]);
        }
    }
    int64_t before = total_length(), now = before;
    uint64_t accepted = 0;
    double temperature = (double)side;
    for (int t = 0; t < TEMPERATURES; t++, temperature *= 0.85)
        for (size_t move = 0; move < moves; move++) {
            Element *a = &elements[rng_below(&rng, (uint32_t)count)], *b = &elements[rng_below(&rng, (uint32_t)count)];
            if (a == b)
                continue;
            int64_t longer = change(a, b) + change(b, a);
            if (longer > 0 && rng_between(&rng, 0.0, 1.0) >= exp(-(double)longer / temperature))
                continue;
            int32_t x = a->x, y = a->y;
            a->x = b->x, a->y = b->y;
            b->x = x, b->y = y;
            now += longer;
            accepted++;
        }
    if (now != total_length())
        fail("a length of %" PRId64 " instead of %" PRId64, now, total_length());
    if (now >= before * 3 / 4)
        fail("the length only went from %" PRId64 " to %" PRId64, before, now);
    memset(place, 0, count * sizeof *place);
    uint64_t sum = mix(accepted, (uint64_t)now);
    for (size_t i = 0; i < count; i++) {
        size_t at = (size_t)elements[i].y * side + (size_t)elements[i].x;
        if (place[at]++)
            fail("two elements at %" PRId32 ", %" PRId32, elements[i].x, elements[i].y);
        sum = mix(sum, at);
    }
    free(place);
    free(elements);
    return finish(sum);
}
