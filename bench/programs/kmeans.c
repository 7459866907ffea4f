// Clusters points in space around means (Lloyd's algorithm).
#include "common.h"

enum { DIMENSIONS = 3, MEANS = 50, MOST_ROUNDS = 30 };

typedef struct {
    double at[DIMENSIONS];
} Point;

static double distance2(const Point *a, const Point *b) {
    double sum = 0.0;
    for (int k = 0; k < DIMENSIONS; k++)
        sum += (a->at[k] - b->at[k]) * (a->at[k] - b->at[k]);
    return sum;
}

// Gives each point to its nearest mean; returns how many go to another than before, and adds the distances up.
static size_t assign(const Point *points, size_t n, const Point *means, int *cluster, double *total) {
    size_t changed = 0;
    *total = 0.0;
    for (size_t i = 0; i < n; i++) {
        int nearest = 0;
        double best = INFINITY;
        for (int m = 0; m < MEANS; m++) {
            double d = distance2(&points[i], &means[m]);
            if (d < best) {
                best = d;
                nearest = m;
            }
        }
        changed += cluster[i] != nearest;
        cluster[i] = nearest;
        *total += best;
    }
    return changed;
}

static void find_means(const Point *points, size_t n, const int *cluster, Point *means, size_t *members) {
    Point sums[MEANS] = {0};
    memset(members, 0, MEANS * sizeof *members);
    for (size_t i = 0; i < n; i++) {
        members[cluster[i]]++;
        for (int k = 0; k < DIMENSIONS; k++)
            sums[cluster[i]].at[k] += points[i].at[k];
    }
    for (int m = 0; m < MEANS; m++)
        for (int k = 0; members[m] && k < DIMENSIONS; k++)
            means[m].at[k] = sums[m].at[k] / (double)members[m];
}

int main(int argc, char **argv) {
    double scale = start(argc, argv, "kmeans");
    size_t n = at_least(MEANS, 520000 * scale), members[MEANS];
    Point *points = allocate(n, sizeof *points), means[MEANS];
    int *cluster = allocate(n, sizeof *cluster);
    uint64_t rng = 24, sum = 0;
    double squares = 0.0, total = 0.0, last = INFINITY;
    for (size_t i = 0; i < n; i++) {
        uint32_t ball = rng_below(&rng, MEANS);
        for (int k = 0; k < DIMENSIONS; k++) {
            double middle = (double)(ball * (uint32_t)(7 + 4 * k) % MEANS);
            points[i].at[k] = middle + rng_between(&rng, -6.0, 6.0);
            squares += points[i].at[k] * points[i].at[k];
        }
    }
    for (int m = 0; m < MEANS; m++)
        means[m] = points[m];
    for (int round = 0; round < MOST_ROUNDS; round++) {
        size_t changed = assign(points, n, means, cluster, &total);
        if (!(total <= last * (1.0 + 1e-12)))
            fail("round %d: the distances grew from %g to %g", round, last, total);
        last = total;
        find_means(points, n, cluster, means, members);
        if (round && !changed)
            break;
    }
    // The squares of the points are those of the means and of the distances to these.
    double of_means = 0.0, of_distances = 0.0;
    size_t counted = 0;
    for (size_t i = 0; i < n; i++)
        of_distances += distance2(&points[i], &means[cluster[i]]);
    for (int m = 0; m < MEANS; m++) {
        counted += members[m];
        sum = mix(sum, members[m]);
        for (int k = 0; k < DIMENSIONS; k++) {
            of_means += (double)members[m] * means[m].at[k] * means[m].at[k];
            sum = mix_double(sum, means[m].at[k]);
        }
    }
    if (counted != n || !(fabs(squares - of_means - of_distances) < 1e-9 * squares))
        fail("%zu of %zu points; squares of %g + %g instead of %g", counted, n, of_means, of_distances, squares);
    assign(points, n, means, cluster, &total);
    for (size_t i = 0; i < n; i += n / MEANS) // no mean is nearer, by the cosine rule
        for (int m = 0; m < MEANS; m++) {
            const double *p = points[i].at, *c = means[m].at;
            double d = p[0] * p[0] + p[1] * p[1] + p[2] * p[2] + c[0] * c[0] + c[1] * c[1] + c[2] * c[2] -
                       2.0 * (p[0] * c[0] + p[1] * c[1] + p[2] * c[2]);
            if (d < distance2(&points[i], &means[cluster[i]]) - 1e-9)
                fail("point %zu is nearer to mean %d than to its own", i, m);
        }
    free(points);
    free(cluster);
    return finish(sum);
}
