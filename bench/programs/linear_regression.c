// A straight line through points of two bytes, for each of many overlapping windows of them.
#include "common.h"

enum { WINDOWS = 96 };

typedef struct {
    uint8_t x, y;
} Point;

typedef struct {
    uint64_t x, y, xx, yy, xy;
} Sums;

static Sums sum_up(const Point *points, size_t count) {
    Sums s = {0};
    for (size_t i = 0; i < count; i++) {
        s.x += points[i].x;
        s.y += points[i].y;
        s.xx += (uint32_t)(points[i].x * points[i].x);
        s.yy += (uint32_t)(points[i].y * points[i].y);
        s.xy += (uint32_t)(points[i].x * points[i].y);
    }
    return s;
}

int main(int argc, char **argv) {
    double scale = start(argc, argv, "linear_regression");
    size_t stride = at_least(20, 160000 * scale), length = stride * WINDOWS;
    size_t count = stride * (WINDOWS - 1) + length;
    Point *points = allocate(count, sizeof *points);
    uint64_t rng = 15, sum = 0;
    for (size_t i = 0; i < count; i++) { // y = 0.5 x + 40, and noise
        uint64_t bits = rng_next(&rng);
        points[i].x = (uint8_t)bits;
        points[i].y = (uint8_t)(points[i].x / 2 + 40 + (bits >> 8 & 31) + (bits >> 16 & 31));
    }
    Sums slid = {0};
    for (size_t window = 0; window < WINDOWS; window++) {
        const Point *first = points + window * stride;
        Sums s = sum_up(first, length);
        // The same from the window before, by what came and what went.
        if (window == 0) {
            slid = s;
        } else {
            for (size_t i = 0; i < stride; i++) {
                Point out = first[i - stride], in = first[i - stride + length];
                slid.x += in.x - (uint64_t)out.x;
                slid.y += in.y - (uint64_t)out.y;
                slid.xx += (uint64_t)in.x * in.x - (uint64_t)out.x * out.x;
                slid.yy += (uint64_t)in.y * in.y - (uint64_t)out.y * out.y;
                slid.xy += (uint64_t)in.x * in.y - (uint64_t)out.x * out.y;
            }
        }
        if (s.x != slid.x || s.y != slid.y || s.xx != slid.xx || s.yy != slid.yy || s.xy != slid.xy)
            fail("window %zu: the sums differ from the last window's, slid", window);
        double n = (double)length, mean_x = (double)s.x / n, mean_y = (double)s.y / n;
        double slope = ((double)s.xy / n - mean_x * mean_y) / ((double)s.xx / n - mean_x * mean_x);
        double offset = mean_y - slope * mean_x, slack = 20.0 / sqrt(n);
        if (!(fabs(slope - 0.5) < slack && fabs(offset - 70.75) < 100.0 * slack))
            fail("window %zu: y = %g x + %g", window, slope, offset);
        sum = mix_double(mix_double(sum, slope), offset);
    }
    free(points);
    return finish(sum);
}
