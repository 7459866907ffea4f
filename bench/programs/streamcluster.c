// Clusters a stream of points by local search for k medians: chunk by chunk, then the chunks' weighted centres.
#include "common.h"

enum { DIMENSIONS = 16, PLANTED = 12, LEAST = 8, MOST = 16, CHUNK = 1600, TRIES = 120, SEARCHES = 20 };

typedef struct {
    double at[DIMENSIONS], weight;
    double cost; // of its weight, to its center
    size_t center; // the number of a point
} Point;

static uint64_t rng = 23;

static double distance2(const Point *a, const Point *b) {
    double sum = 0.0;
    for (int k = 0; k < DIMENSIONS; k++)
        sum += (a->at[k] - b->at[k]) * (a->at[k] - b->at[k]);
    return sum;
}

static double assign_all(Point *points, size_t n, size_t center) {
    double total = 0.0;
    for (size_t i = 0; i < n; i++) {
        points[i].center = center;
        points[i].cost = points[i].weight * distance2(&points[i], &points[center]);
        total += points[i].cost;
    }
    return total;
}

// Opens each point with a chance that grows with its distance to the open ones, at a cost of open_cost each.
static void open_some(Point *points, size_t n, double open_cost) {
    assign_all(points, n, 0);
    for (size_t i = 1; i < n; i++) {
        if (rng_between(&rng, 0.0, 1.0) >= points[i].cost / open_cost)
            continue;
        for (size_t j = 0; j < n; j++) {
            double cost = points[j].weight * distance2(&points[j], &points[i]);
            if (cost < points[j].cost) {
                points[j].cost = cost;
                points[j].center = i;
            }
        }
    }
}

// Opens x if that pays: its own points get nearer, and centers close whose points all move to x. Returns the gain.
static double try_open(Point *points, size_t n, size_t x, double open_cost, double *saved, double *cost_at_x) {
    double gain = -open_cost;
    memset(saved, 0, n * sizeof *saved); // by center: what closing it saves in the points' cost
    for (size_t i = 0; i < n; i++) {
        cost_at_x[i] = points[i].weight * distance2(&points[i], &points[x]);
        double less = points[i].cost - cost_at_x[i];
        if (less > 0.0)
            gain += less;
        else
            saved[points[i].center] += less;
    }
    for (size_t i = 0; i < n; i++)
        if (points[i].center == i && saved[i] + open_cost > 0.0)
            gain += saved[i] + open_cost;
    if (gain <= 0.0 || points[x].center == x)
        return 0.0;
    for (size_t i = 0; i < n; i++)
        if (cost_at_x[i] < points[i].cost || saved[points[i].center] + open_cost > 0.0) {
            points[i].center = x;
            points[i].cost = cost_at_x[i];
        }
    return gain;
}

static size_t centers_of(const Point *points, size_t n) {
    size_t centers = 0;
    for (size_t i = 0; i < n; i++)
        centers += points[i].center == i;
    return centers;
}

// What the local search makes smaller.
static double cost_of_all(const Point *points, size_t n, double open_cost) {
    double total = open_cost * (double)centers_of(points, n);
    for (size_t i = 0; i < n; i++)
        total += points[i].cost;
    return total;
}

// Finds a cost for opening with which the number of centers is from LEAST to MOST, and moves these to the front, with
// the weights of their points.
static size_t cluster(Point *points, size_t n) {
    double *saved = allocate(n, sizeof *saved), *cost_at_x = allocate(n, sizeof *cost_at_x);
    double low = 0.0, high = assign_all(points, n, 0);
    size_t centers = 1;
    for (int search = 0; search < SEARCHES && n > LEAST; search++) {
        double open_cost = 0.5 * (low + high);
        open_some(points, n, open_cost);
        double gain, cost = cost_of_all(points, n, open_cost);
        do {
            gain = 0.0;
            for (int t = 0; t < TRIES; t++)
                gain += try_open(points, n, rng_below(&rng, (uint32_t)n), open_cost, saved, cost_at_x);
            double now = cost_of_all(points, n, open_cost);
            if (!(fabs(cost - gain - now) < 1e-9 * cost))
                fail("the cost went from %g to %g, a gain of %g", cost, now, gain);
            cost = now;
        } while (gain > 0.01 * cost);
        centers = centers_of(points, n);
        if (centers >= LEAST && centers <= MOST)
            break;
        if (centers > MOST)
            low = open_cost;
        else
            high = open_cost;
    }
    double weight = 0.0;
    for (size_t i = 0; i < n; i++)
        saved[i] = 0.0;
    for (size_t i = 0; i < n; i++) {
        if (points[points[i].center].center != points[i].center)
            fail("point %zu belongs to a closed center", i);
        saved[points[i].center] += points[i].weight;
        weight += points[i].weight;
    }
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (points[i].center == i) {
            points[kept] = points[i];
            points[kept].weight = saved[i];
            weight -= points[kept++].weight;
        }
    if (fabs(weight) > 1e-6 * (double)n)
        fail("the centers weigh %g less than their points", weight);
    free(saved);
    free(cost_at_x);
    return kept;
}

static double cost_of(const Point *points, size_t n, const Point *centers, size_t count) {
    double total = 0.0;
    for (size_t i = 0; i < n; i++) {
        double best = INFINITY;
        for (size_t c = 0; c < count; c++) {
            double d = distance2(&points[i], &centers[c]);
            best = d < best ? d : best;
        }
        total += best;
    }
    return total;
}

int main(int argc, char **argv) {
    double scale = start(argc, argv, "streamcluster");
    size_t n = at_least(400, 74000 * scale), kept = 0;
    Point *stream = allocate(n, sizeof *stream), *chunk = allocate(CHUNK, sizeof *chunk);
    Point planted[PLANTED], *centers = allocate((n / CHUNK + 1) * CHUNK, sizeof *centers);
    for (int c = 0; c < PLANTED; c++)
        for (int k = 0; k < DIMENSIONS; k++)
            planted[c].at[k] = rng_between(&rng, 0.0, 1.0);
    for (size_t i = 0; i < n; i++) {
        stream[i].weight = 1.0;
        for (int k = 0; k < DIMENSIONS; k++)
            stream[i].at[k] = planted[i % PLANTED].at[k] + rng_between(&rng, -0.2, 0.2);
    }
    for (size_t from = 0; from < n; from += CHUNK) {
        size_t size = n - from < CHUNK ? n - from : CHUNK;
        memcpy(chunk, stream + from, size * sizeof *chunk);
        size_t found = cluster(chunk, size);
        memcpy(centers + kept, chunk, found * sizeof *chunk);
        kept += found;
    }
    kept = cluster(centers, kept);
    double cost = cost_of(stream, n, centers, kept), best = cost_of(stream, n, planted, PLANTED);
    if (!(kept >= LEAST && kept <= MOST && cost < 4.0 * best))
        fail("%zu centers at a cost of %g; %d would cost %g", kept, cost, PLANTED, best);
    uint64_t sum = mix_double(kept, cost);
    for (size_t c = 0; c < kept; c++)
        for (int k = 0; k < DIMENSIONS; k++)
            sum = mix_double(sum, centers[c].at[k]);
    free(stream);
    free(chunk);
    free(centers);
    return finish(sum);
}
