// Charges that drift in the plane, by an adaptive fast multipole method: expansions over a quadtree, whose pairs of
// boxes are walked recursively.
#include "common.h"

enum { TERMS = 10, LEAF = 6, CHECKED = 16 };

static const double separation = 0.55;

typedef struct {
    double re, im;
} Complex;

typedef struct {
    Complex z, field;
    double charge;
} Point;

typedef struct Box {
    Complex center;
    double half; // of the side
    Point *first;
    size_t points;
    struct Box *child[4]; // all null in a leaf
    bool leaf;
    double charge;
    Complex far[TERMS];  // of the points inside, seen from outside
    Complex near[TERMS]; // of the points outside, seen from inside
} Box;

static double binomial[2 * TERMS][2 * TERMS];

static inline Complex add(Complex a, Complex b) { return (Complex){a.re + b.re, a.im + b.im}; }
static inline Complex sub(Complex a, Complex b) { return (Complex){a.re - b.re, a.im - b.im}; }
static inline Complex times(double a, Complex b) { return (Complex){a * b.re, a * b.im}; }
static inline Complex mul(Complex a, Complex b) {
    return (Complex){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
static inline Complex inverse(Complex a) {
    double n = 1.0 / (a.re * a.re + a.im * a.im);
    return (Complex){a.re * n, -a.im * n};
}

static Box *build(Point *first, size_t points, Complex center, double half) {
    Box *box = allocate(1, sizeof *box);
    box->center = center, box->half = half, box->first = first, box->points = points;
    box->leaf = points <= LEAF;
    if (box->leaf)
        return box;
    size_t start = 0;
    for (int q = 0; q < 4; q++) {
        // Brings the points of the quarter to the front.
        size_t end = start;
        for (size_t i = start; i < points; i++) {
            int quarter = (first[i].z.re >= center.re) + 2 * (first[i].z.im >= center.im);
            if (quarter == q) {
                Point swap = first[i];
                first[i] = first[end], first[end++] = swap;
            }
        }
        Complex c = {center.re + (q & 1 ? 0.5 : -0.5) * half, center.im + (q & 2 ? 0.5 : -0.5) * half};
        if (end > start)
            box->child[q] = build(first + start, end - start, c, 0.5 * half);
        start = end;
    }
    return box;
}

// Fills the expansions of far points, leaves first. far[k] belongs to the power -(k + 1).
static void upward(Box *box) {
    if (box->leaf) {
        for (size_t i = 0; i < box->points; i++) {
            Complex d = sub(box->first[i].z, box->center), power = {box->first[i].charge, 0.0};
            box->charge += power.re;
            for (int k = 0; k < TERMS; k++) {
                power = mul(power, d);
                box->far[k] = add(box->far[k], times(-1.0 / (k + 1), power));
            }
        }
        return;
    }
    for (int q = 0; q < 4; q++) {
        Box *child = box->child[q];
        if (!child)
            continue;
        upward(child);
        box->charge += child->charge;
        Complex d = sub(child->center, box->center), power[TERMS + 1];
        power[0] = (Complex){1.0, 0.0};
        for (int k = 1; k <= TERMS; k++)
            power[k] = mul(power[k - 1], d);
        for (int l = 1; l <= TERMS; l++) {
            Complex sum = times(-child->charge / l, power[l]);
            for (int k = 1; k <= l; k++)
                sum = add(sum, times(binomial[l - 1][k - 1], mul(child->far[k - 1], power[l - k])));
            box->far[l - 1] = add(box->far[l - 1], sum);
        }
    }
}

static void far_to_near(Box *to, const Box *from) {
    Complex r = inverse(sub(from->center, to->center)), power = r, scaled[TERMS];
    for (int k = 0; k < TERMS; k++) {
        scaled[k] = times(k % 2 ? 1.0 : -1.0, mul(from->far[k], power));
        power = mul(power, r);
    }
    power = (Complex){1.0, 0.0};
    for (int l = 1; l < TERMS; l++) {
        Complex sum = {-from->charge / l, 0.0};
        for (int k = 0; k < TERMS; k++)
            sum = add(sum, times(binomial[l + k][k], scaled[k]));
        power = mul(power, r);
        to->near[l] = add(to->near[l], mul(sum, power));
    }
}

static inline Complex pull(const Point *at, const Point *by) {
    return times(by->charge, inverse(sub(at->z, by->z)));
}

static void point_to_point(Box *to, const Box *from) {
    for (size_t i = 0; i < to->points; i++) {
        Point *p = &to->first[i];
        Complex sum = {0.0, 0.0};
        for (size_t j = 0; j < from->points; j++)
            if (p != &from->first[j])
                sum = add(sum, pull(p, &from->first[j]));
        p->field = add(p->field, sum);
    }
}

static void interact(Box *to, Box *from) {
    Complex d = sub(to->center, from->center);
    double distance2 = d.re * d.re + d.im * d.im, reach = 1.42 * (to->half + from->half) / separation;
    if (distance2 > reach * reach) {
        far_to_near(to, from);
    } else if (to->leaf && from->leaf) {
        point_to_point(to, from);
    } else if (from->leaf || (!to->leaf && to->half >= from->half)) {
        for (int q = 0; q < 4; q++)
            if (to->child[q])
                interact(to->child[q], from);
    } else {
        for (int q = 0; q < 4; q++)
            if (from->child[q])
                interact(to, from->child[q]);
    }
}

// Moves the expansions of near points down to the leaves, and there to the points.
static void downward(Box *box) {
    if (box->leaf)
        for (size_t i = 0; i < box->points; i++) {
            Complex d = sub(box->first[i].z, box->center), sum = {0.0, 0.0};
            for (int l = TERMS - 1; l >= 1; l--)
                sum = add(mul(sum, d), times(l, box->near[l]));
            box->first[i].field = add(box->first[i].field, sum);
        }
    for (int q = 0; q < 4; q++) {
        Box *child = box->child[q];
        if (!child)
            continue;
        Complex moved[TERMS], d = sub(child->center, box->center);
        memcpy(moved, box->near, sizeof moved);
        for (int j = 0; j < TERMS; j++)
            for (int k = TERMS - 2; k >= j; k--)
                moved[k] = add(moved[k], mul(d, moved[k + 1]));
        for (int l = 0; l < TERMS; l++)
            child->near[l] = add(child->near[l], moved[l]);
        downward(child);
    }
    free(box);
}

static double inside(double x) { return x < 0.0 ? 0.0 : x > 1.0 ? 1.0 : x; }

// Compares the fields of some points with their sums over all others.
static void check(const Point *all, size_t points) {
    double error = 0.0, size = 0.0;
    for (size_t c = 0; c < CHECKED; c++) {
        const Point *p = &all[c * (points / CHECKED)];
        Complex sum = {0.0, 0.0};
        for (size_t j = 0; j < points; j++)
            if (p != &all[j])
                sum = add(sum, pull(p, &all[j]));
        Complex off = sub(sum, p->field);
        error += off.re * off.re + off.im * off.im;
        size += sum.re * sum.re + sum.im * sum.im;
    }
    if (!(error < 1e-8 * size))
        fail("the field is off by %g of its size", sqrt(error / size));
}

int main(int argc, char **argv) {
    double scale = start(argc, argv, "fmm");
    size_t points = at_least(500, 60000 * sqrt(scale)), steps = at_least(1, 9 * sqrt(scale));
    for (int n = 0; n < 2 * TERMS; n++)
        for (int k = 0; k <= n; k++)
            binomial[n][k] = k == 0 || k == n ? 1.0 : binomial[n - 1][k - 1] + binomial[n - 1][k];
    uint64_t rng = 4, sum = 0;
    Point *all = allocate(points, sizeof *all);
    for (size_t i = 0; i < points; i++) { // half of them in clusters
        double spread = i % 2 ? 1.0 : 0.02;
        Complex middle = {0.5, 0.5};
        if (i % 2 == 0)
            middle = (Complex){0.1 + 0.2 * (double)(i / 2 % 5), 0.15 + 0.1 * (double)(i / 10 % 8)};
        all[i].z.re = middle.re + spread * rng_between(&rng, -0.5, 0.5);
        all[i].z.im = middle.im + spread * rng_between(&rng, -0.5, 0.5);
        all[i].charge = rng_between(&rng, -1.0, 1.0);
    }
    for (size_t step = 0; step < steps; step++) {
        Box *root = build(all, points, (Complex){0.5, 0.5}, 0.5);
        upward(root);
        interact(root, root);
        downward(root);
        check(all, points);
        for (size_t i = 0; i < points; i++) {
            Point *p = &all[i];
            sum = mix_double(mix_double(sum, p->field.re), p->field.im);
            p->z.re = inside(p->z.re + 1e-7 * p->field.re);
            p->z.im = inside(p->z.im + 1e-7 * p->field.im);
            p->field = (Complex){0.0, 0.0};
        }
    }
    return finish(sum);
}
