// Light in a room with boxes by hierarchical radiosity: patches refined recursively against each other, then light
// gathered over their links and carried up and down the hierarchy. One scene for each position of the lamp.
#include "common.h"

enum { BOXES = 4, ROOTS = 7 + 5 * BOXES, MOST_PATCHES = 1 << 16, ROUNDS = 8 };

static const double finest = 0.04; // the largest form factor that is not refined
static const double smallest = 0.005; // area, of the room's side squared

typedef struct {
    double x, y, z;
} Vec;

typedef struct Link {
    const struct Patch *from;
    double factor;
    struct Link *next;
} Link;

typedef struct Patch {
    Vec corner, u, v, normal, center;
    double area, emitted, reflected; // reflected: the share
    double light, gathered;
    Link *links;
    struct Patch *child; // the first of four, or null
} Patch;

typedef struct {
    double low[3], high[3];
} Box;

static Box boxes[BOXES];
static Patch *patches;
static Link *links;
static size_t patch_count, link_count, most_links;

static inline Vec add(Vec a, Vec b) { return (Vec){a.x + b.x, a.y + b.y, a.z + b.z}; }
static inline Vec sub(Vec a, Vec b) { return (Vec){a.x - b.x, a.y - b.y, a.z - b.z}; }
static inline Vec times(double f, Vec a) { return (Vec){f * a.x, f * a.y, f * a.z}; }
static inline double dot(Vec a, Vec b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
static inline Vec cross(Vec a, Vec b) {
    return (Vec){a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}

static void init_patch(Patch *p, Vec corner, Vec u, Vec v, double emitted, double reflected) {
    Vec normal = cross(u, v);
    double area = sqrt(dot(normal, normal));
    *p = (Patch){.corner = corner, .u = u, .v = v, .normal = times(1.0 / area, normal), .area = area,
                 .center = add(corner, times(0.5, add(u, v))), .emitted = emitted, .reflected = reflected,
                 .light = emitted};
}

static void add_root(Vec corner, Vec u, Vec v, double emitted, double reflected) {
    init_patch(&patches[patch_count++], corner, u, v, emitted, reflected);
}

static void split(Patch *p) {
    if (p->child)
        return;
    if (patch_count + 4 > MOST_PATCHES)
        fail("more than %d patches", MOST_PATCHES);
    p->child = &patches[patch_count];
    patch_count += 4;
    Vec u = times(0.5, p->u), v = times(0.5, p->v);
    for (int q = 0; q < 4; q++) {
        Vec corner = add(p->corner, add(times(q & 1, u), times(q >> 1, v)));
        init_patch(&p->child[q], corner, u, v, p->emitted, p->reflected);
    }
}

// Do the boxes leave the line from a to b open?
static bool open_between(Vec a, Vec b) {
    double o[3] = {a.x, a.y, a.z}, d[3] = {b.x - a.x, b.y - a.y, b.z - a.z};
    for (int i = 0; i < BOXES; i++) {
        double from = 1e-6, to = 1.0 - 1e-6;
        for (int k = 0; k < 3 && from < to; k++) {
            if (fabs(d[k]) < 1e-12) {
                if (o[k] <= boxes[i].low[k] || o[k] >= boxes[i].high[k])
                    to = from;
                continue;
            }
            double s = (boxes[i].low[k] - o[k]) / d[k], t = (boxes[i].high[k] - o[k]) / d[k];
            double low = s < t ? s : t, high = s < t ? t : s;
            from = low > from ? low : from;
            to = high < to ? high : to;
        }
        if (to - from > 1e-6)
            return false;
    }
    return true;
}

static double visibility(const Patch *p, const Patch *q) {
    static const double at[4][2] = {{0.25, 0.3}, {0.7, 0.2}, {0.3, 0.75}, {0.8, 0.7}};
    int seen = 0;
    for (int i = 0; i < 4; i++) {
        Vec a = add(p->corner, add(times(at[i][0], p->u), times(at[i][1], p->v)));
        Vec b = add(q->corner, add(times(at[(i + 1) % 4][0], q->u), times(at[(i + 1) % 4][1], q->v)));
        seen += open_between(a, b);
    }
    return 0.25 * seen;
}

// The share of p's half sphere that q fills, as if q were a disc.
static double form_factor(const Patch *p, const Patch *q) {
    Vec d = sub(q->center, p->center);
    double r2 = dot(d, d), cos_p = dot(d, p->normal), cos_q = -dot(d, q->normal);
    if (cos_p <= 0.0 || cos_q <= 0.0)
        return 0.0;
    return cos_p * cos_q / r2 * q->area / (PI * r2 + q->area);
}

// Is all of q behind p's plane?
static bool behind(const Patch *p, const Patch *q) {
    for (int i = 0; i < 4; i++) {
        Vec corner = add(q->corner, add(times(i & 1, q->u), times(i >> 1, q->v)));
        if (dot(sub(corner, p->corner), p->normal) > 1e-9)
            return false;
    }
    return true;
}

// Links p to the light of q, or their parts.
static void refine(Patch *p, Patch *q) {
    if (behind(p, q) || behind(q, p))
        return;
    double factor = form_factor(p, q), back = form_factor(q, p);
    if ((factor < finest && back < finest && p->area + q->area < 0.5) || p->area + q->area < smallest) {
        factor *= visibility(p, q);
        if (factor == 0.0)
            return;
        if (link_count == most_links)
            fail("more than %zu links", most_links);
        links[link_count] = (Link){q, factor, p->links};
        p->links = &links[link_count++];
    } else if (p->area > q->area) {
        split(p);
        for (int i = 0; i < 4; i++)
            refine(&p->child[i], q);
    } else {
        split(q);
        for (int i = 0; i < 4; i++)
            refine(p, &q->child[i]);
    }
}

static void gather(Patch *p) {
    p->gathered = 0.0;
    for (const Link *link = p->links; link; link = link->next)
        p->gathered += link->factor * link->from->light;
    for (int i = 0; p->child && i < 4; i++)
        gather(&p->child[i]);
}

// Brings what the patches above gathered down to the leaves; returns the mean of the leaves' light.
static double push_pull(Patch *p, double from_above, double *absorbed) {
    double arrived = from_above + p->gathered;
    if (!p->child) {
        *absorbed += p->area * (1.0 - p->reflected) * arrived;
        return p->light = p->emitted + p->reflected * arrived;
    }
    double sum = 0.0;
    for (int i = 0; i < 4; i++)
        sum += push_pull(&p->child[i], arrived, absorbed);
    return p->light = 0.25 * sum;
}

static void build(double lamp_x, double lamp_z) {
    patch_count = link_count = 0;
    add_root((Vec){0, 0, 0}, (Vec){0, 0, 1}, (Vec){1, 0, 0}, 0, 0.4); // the floor
    add_root((Vec){0, 1, 0}, (Vec){1, 0, 0}, (Vec){0, 0, 1}, 0, 0.7);
    add_root((Vec){0, 0, 0}, (Vec){1, 0, 0}, (Vec){0, 1, 0}, 0, 0.6);
    add_root((Vec){0, 0, 1}, (Vec){0, 1, 0}, (Vec){1, 0, 0}, 0, 0.6);
    add_root((Vec){0, 0, 0}, (Vec){0, 1, 0}, (Vec){0, 0, 1}, 0, 0.5);
    add_root((Vec){1, 0, 0}, (Vec){0, 0, 1}, (Vec){0, 1, 0}, 0, 0.5);
    add_root((Vec){lamp_x, 0.999, lamp_z}, (Vec){0.2, 0, 0}, (Vec){0, 0, 0.2}, 20, 0.0);
    for (int i = 0; i < BOXES; i++) {
        const double *l = boxes[i].low, *h = boxes[i].high;
        double x = h[0] - l[0], y = h[1] - l[1], z = h[2] - l[2];
        add_root((Vec){l[0], h[1], l[2]}, (Vec){0, 0, z}, (Vec){x, 0, 0}, 0, 0.3); // the top
        add_root((Vec){l[0], l[1], l[2]}, (Vec){0, y, 0}, (Vec){x, 0, 0}, 0, 0.3);
        add_root((Vec){l[0], l[1], h[2]}, (Vec){x, 0, 0}, (Vec){0, y, 0}, 0, 0.3);
        add_root((Vec){l[0], l[1], l[2]}, (Vec){0, 0, z}, (Vec){0, y, 0}, 0, 0.3);
        add_root((Vec){h[0], l[1], l[2]}, (Vec){0, y, 0}, (Vec){0, 0, z}, 0, 0.3);
    }
}

int main(int argc, char **argv) {
    double scale = start(argc, argv, "radiosity");
    size_t scenes = at_least(1, 260 * scale);
    patches = allocate(MOST_PATCHES, sizeof *patches);
    most_links = 1 << 21;
    links = malloc(most_links * sizeof *links);
    if (!links)
        fail("no memory for %zu links", most_links);
    for (int i = 0; i < BOXES; i++) {
        double x = 0.1 + 0.3 * (i % 3), z = i < 3 ? 0.15 : 0.6, height = 0.15 + 0.15 * i;
        boxes[i] = (Box){{x, 0.0, z}, {x + 0.17, height, z + 0.22}};
    }
    uint64_t rng = 11, sum = 0;
    for (size_t scene = 0; scene < scenes; scene++) {
        double lamp_x = rng_between(&rng, 0.0, 0.8), lamp_z = rng_between(&rng, 0.0, 0.8);
        build(lamp_x, lamp_z);
        for (int p = 0; p < ROOTS; p++)
            for (int q = 0; q < ROOTS; q++)
                if (p != q)
                    refine(&patches[p], &patches[q]);
        double absorbed = 0.0, emitted = 20.0 * 0.04;
        for (int round = 0; round < ROUNDS; round++) {
            absorbed = 0.0;
            for (int p = 0; p < ROOTS; p++)
                gather(&patches[p]);
            for (int p = 0; p < ROOTS; p++)
                push_pull(&patches[p], 0.0, &absorbed);
        }
        // What leaves the lamp must arrive somewhere, as well as discs stand for rectangles.
        if (!(fabs(absorbed - emitted) < 0.2 * emitted))
            fail("scene %zu: %g of light sent, %g absorbed", scene, emitted, absorbed);
        for (int p = 0; p < ROOTS; p++)
            sum = mix_double(sum, patches[p].light);
    }
    return finish(sum);
}
