// Recursive ray tracing of shiny balls over a floor, found through a hierarchy of bounding boxes.
#include "common.h"

enum { BALLS = 3000, LEAF = 2, DEPTH = 4 };

typedef struct {
    double x, y, z;
} Vec;

typedef struct {
    Vec center, color;
    double radius, mirror;
} Ball;

typedef struct Node {
    double low[3], high[3];
    struct Node *left, *right; // null in a leaf
    const Ball *balls;
    int count;
} Node;

typedef struct {
    double t;
    const Ball *ball;
} Hit;

static Ball balls[BALLS];
static const Vec sun = {0.48, 0.8, -0.36};

static inline Vec add(Vec a, Vec b) { return (Vec){a.x + b.x, a.y + b.y, a.z + b.z}; }
static inline Vec sub(Vec a, Vec b) { return (Vec){a.x - b.x, a.y - b.y, a.z - b.z}; }
static inline Vec times(double f, Vec a) { return (Vec){f * a.x, f * a.y, f * a.z}; }
static inline double dot(Vec a, Vec b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
static inline Vec unit(Vec a) { return times(1.0 / sqrt(dot(a, a)), a); }

static int by_x(const void *a, const void *b) {
    double d = ((const Ball *)a)->center.x - ((const Ball *)b)->center.x;
    return (d > 0.0) - (d < 0.0);
}

static int by_y(const void *a, const void *b) {
    double d = ((const Ball *)a)->center.y - ((const Ball *)b)->center.y;
    return (d > 0.0) - (d < 0.0);
}

static int by_z(const void *a, const void *b) {
    double d = ((const Ball *)a)->center.z - ((const Ball *)b)->center.z;
    return (d > 0.0) - (d < 0.0);
}

static Node *build(Ball *first, int count) {
    static int (*const order[3])(const void *, const void *) = {by_x, by_y, by_z};
    Node *node = allocate(1, sizeof *node);
    int axis = 0;
    for (int k = 0; k < 3; k++) {
        node->low[k] = 1e30, node->high[k] = -1e30;
        for (int i = 0; i < count; i++) {
            const Vec *v = &first[i].center;
            double c = k == 0 ? v->x : k == 1 ? v->y : v->z;
            node->low[k] = fmin(node->low[k], c - first[i].radius);
            node->high[k] = fmax(node->high[k], c + first[i].radius);
        }
        if (node->high[k] - node->low[k] > node->high[axis] - node->low[axis])
            axis = k;
    }
    node->balls = first, node->count = count;
    if (count > LEAF) {
        qsort(first, (size_t)count, sizeof *first, order[axis]);
        node->left = build(first, count / 2);
        node->right = build(first + count / 2, count - count / 2);
    }
    return node;
}

static void free_nodes(Node *node) {
    if (!node)
        return;
    free_nodes(node->left);
    free_nodes(node->right);
    free(node);
}

static void hit_ball(const Ball *ball, Vec origin, Vec d, Hit *best) {
    Vec m = sub(origin, ball->center);
    double b = dot(m, d), disc = b * b - dot(m, m) + ball->radius * ball->radius;
    if (disc <= 0.0)
        return;
    double root = sqrt(disc), t = -b - root > 1e-6 ? -b - root : -b + root;
    // Of two balls at the same distance the first in memory, whatever the order.
    if (t > 1e-6 && (t < best->t || (t == best->t && best->ball && ball < best->ball)))
        *best = (Hit){t, ball};
}

// Where the ray enters the box, or 1e30.
static double enter(const Node *node, const double origin[3], const double inverse[3]) {
    double from = 0.0, to = 1e30;
    for (int k = 0; k < 3; k++) {
        double a = (node->low[k] - origin[k]) * inverse[k], b = (node->high[k] - origin[k]) * inverse[k];
        double low = a < b ? a : b, high = a < b ? b : a;
        from = low > from ? low : from;
        to = high < to ? high : to;
    }
    return from <= to ? from : 1e30;
}

static void find(const Node *node, Vec origin, Vec d, const double o[3], const double inverse[3], Hit *best) {
    if (!node->left) {
        for (int i = 0; i < node->count; i++)
            hit_ball(&node->balls[i], origin, d, best);
        return;
    }
    const Node *first = node->left, *second = node->right;
    double near = enter(first, o, inverse), far = enter(second, o, inverse);
    if (far < near) {
        const Node *node_swap = first;
        double swap = near;
        first = second, second = node_swap;
        near = far, far = swap;
    }
    if (near < 1e30 && near <= best->t + 1e-9)
        find(first, origin, d, o, inverse, best);
    if (far < 1e30 && far <= best->t + 1e-9)
        find(second, origin, d, o, inverse, best);
}

static Hit nearest(const Node *root, Vec origin, Vec d) {
    Hit best = {1e29, NULL};
    double o[3] = {origin.x, origin.y, origin.z};
    double inverse[3] = {1.0 / d.x, 1.0 / d.y, 1.0 / d.z};
    find(root, origin, d, o, inverse, &best);
    return best;
}

static Vec trace(const Node *root, Vec origin, Vec d, int depth) {
    Hit hit = nearest(root, origin, d);
    Vec point, normal, color;
    double mirror;
    if (hit.ball) {
        point = add(origin, times(hit.t, d));
        normal = times(1.0 / hit.ball->radius, sub(point, hit.ball->center));
        color = hit.ball->color, mirror = hit.ball->mirror;
    } else if (d.y < -1e-3) { // the floor, a chessboard
        point = add(origin, times(-origin.y / d.y, d));
        normal = (Vec){0.0, 1.0, 0.0};
        bool dark = fmod(floor(point.x) + floor(point.z), 2.0) != 0.0;
        color = dark ? (Vec){0.2, 0.2, 0.25} : (Vec){0.9, 0.9, 0.8};
        mirror = 0.2;
    } else {
        return (Vec){0.5 - 0.2 * d.y, 0.6, 0.8 + 0.2 * d.y};
    }
    double facing = dot(normal, sun);
    point = add(point, times(1e-6, normal));
    if (facing < 0.0 || nearest(root, point, sun).ball)
        facing = 0.0;
    Vec result = times((0.2 + 0.8 * facing) * (1.0 - mirror), color);
    if (depth < DEPTH) {
        Vec reflected = unit(sub(d, times(2.0 * dot(d, normal), normal)));
        result = add(result, times(mirror, trace(root, point, reflected, depth + 1)));
    }
    return result;
}

int main(int argc, char **argv) {
    double scale = start(argc, argv, "raytrace");
    int pixels = (int)at_least(16, 1050 * sqrt(scale));
    uint64_t rng = 5;
    for (int i = 0; i < BALLS; i++) {
        Ball *b = &balls[i];
        b->radius = rng_between(&rng, 0.1, 0.5);
        b->mirror = rng_between(&rng, 0.1, 0.7);
        b->center.x = rng_between(&rng, -20.0, 20.0);
        b->center.y = b->radius + rng_between(&rng, 0.0, 4.0);
        b->center.z = rng_between(&rng, 0.0, 40.0);
        b->color.x = rng_between(&rng, 0.2, 1.0);
        b->color.y = rng_between(&rng, 0.2, 1.0);
        b->color.z = rng_between(&rng, 0.2, 1.0);
    }
    Node *root = build(balls, BALLS);
    Vec eye = {0.3, 5.0, -12.0}, total = {0.0, 0.0, 0.0};
    uint64_t sum = 0;
    for (int y = 0; y < pixels; y++)
        for (int x = 0; x < pixels; x++) {
            Vec d = unit((Vec){(x + 0.51) / pixels - 0.5, 0.3 - (y + 0.51) / pixels, 0.9});
            if ((y * pixels + x) % 499 == 0) {
                Hit hit = nearest(root, eye, d), slow = {1e29, NULL};
                for (int i = 0; i < BALLS; i++)
                    hit_ball(&balls[i], eye, d, &slow);
                if (hit.ball != slow.ball || hit.t != slow.t)
                    fail("pixel %d, %d: another ball than without the hierarchy", x, y);
            }
            Vec color = trace(root, eye, d, 0);
            total = add(total, color);
            sum = mix_double(mix_double(mix_double(sum, color.x), color.y), color.z);
        }
    free_nodes(root);
    double mean = (total.x + total.y + total.z) / (3.0 * pixels * pixels);
    if (!(mean > 0.05 && mean < 1.0))
        fail("the picture's brightness is %g", mean);
    return finish(sum);
}
