// Ray casting through a volume, with an octree to skip what is empty, and rays that end when nothing shines through.
#include "common.h"

enum { MOST_LEVELS = 8, THRESHOLD = 40, BLOBS = 60, FRAMES = 4 };

static int side, levels; // side = 1 << levels voxels a side
static uint8_t *volume;
static uint8_t *occupied[MOST_LEVELS]; // by level: does a cube of 1 << level cells a side hold anything?
static float opacity[256];

static uint8_t voxel(int x, int y, int z) {
    return volume[((size_t)z << 2 * levels) + ((size_t)y << levels) + (size_t)x];
}

static size_t cube(int level, int x, int y, int z) {
    int bits = levels - level;
    return ((size_t)(z >> level) << 2 * bits) + ((size_t)(y >> level) << bits) + (size_t)(x >> level);
}

// Balls whose density falls from the middle to the surface.
static void build_volume(void) {
    uint64_t rng = 3;
    volume = allocate((size_t)1 << 3 * levels, 1);
    for (int b = 0; b < BLOBS; b++) {
        double c[3], radius = rng_between(&rng, 0.03, 0.12) * side, most = rng_between(&rng, 90, 250);
        int low[3], high[3];
        for (int k = 0; k < 3; k++) {
            c[k] = rng_between(&rng, 0.15, 0.85) * side;
            low[k] = (int)(c[k] - radius), high[k] = (int)(c[k] + radius);
            low[k] = low[k] < 0 ? 0 : low[k], high[k] = high[k] >= side ? side - 1 : high[k];
        }
        for (int z = low[2]; z <= high[2]; z++)
            for (int y = low[1]; y <= high[1]; y++)
                for (int x = low[0]; x <= high[0]; x++) {
                    double d2 = (x - c[0]) * (x - c[0]) + (y - c[1]) * (y - c[1]) + (z - c[2]) * (z - c[2]);
                    double value = most * (1.0 - d2 / (radius * radius));
                    uint8_t *v = &volume[((size_t)z << 2 * levels) + ((size_t)y << levels) + (size_t)x];
                    if (value > *v)
                        *v = (uint8_t)value;
                }
    }
    for (int v = 0; v < 256; v++)
        opacity[v] = v < THRESHOLD ? 0.0f : 0.12f * (float)(v - THRESHOLD) / 215.0f + 0.01f;
}

static void build_octree(void) {
    for (int level = 0; level <= levels; level++)
        occupied[level] = allocate((size_t)1 << 3 * (levels - level), 1);
    for (int z = 0; z < side; z++)
        for (int y = 0; y < side; y++)
            for (int x = 0; x < side; x++)
                if (voxel(x, y, z) >= THRESHOLD)
                    for (int corner = 0; corner < 8; corner++) { // the eight cells that it is a corner of
                        int cx = x - (corner & 1), cy = y - (corner >> 1 & 1), cz = z - (corner >> 2);
                        if (cx >= 0 && cy >= 0 && cz >= 0)
                            occupied[0][cube(0, cx, cy, cz)] = 1;
                    }
    for (int level = 1; level <= levels; level++)
        for (int z = 0; z < side; z += 1 << (level - 1))
            for (int y = 0; y < side; y += 1 << (level - 1))
                for (int x = 0; x < side; x += 1 << (level - 1))
                    occupied[level][cube(level, x, y, z)] |= occupied[level - 1][cube(level - 1, x, y, z)];
}

// The value between the eight voxels of a cell.
static float sample(const double p[3], const int c[3]) {
    const uint8_t *v = &volume[((size_t)c[2] << 2 * levels) + ((size_t)c[1] << levels) + (size_t)c[0]];
    size_t dy = (size_t)1 << levels, dz = (size_t)1 << 2 * levels;
    float x = (float)(p[0] - c[0]), y = (float)(p[1] - c[1]), z = (float)(p[2] - c[2]);
    float v00 = v[0] + x * (v[1] - v[0]), v10 = v[dy] + x * (v[dy + 1] - v[dy]);
    float v01 = v[dz] + x * (v[dz + 1] - v[dz]), v11 = v[dz + dy] + x * (v[dz + dy + 1] - v[dz + dy]);
    float v0 = v00 + y * (v10 - v00), v1 = v01 + y * (v11 - v01);
    return v0 + z * (v1 - v0);
}

// Brighter where the volume gets denser away from the eye.
static float shade(const int c[3], const double direction[3]) {
    float gx = (float)(voxel(c[0] + 1, c[1], c[2]) - voxel(c[0], c[1], c[2]));
    float gy = (float)(voxel(c[0], c[1] + 1, c[2]) - voxel(c[0], c[1], c[2]));
    float gz = (float)(voxel(c[0], c[1], c[2] + 1) - voxel(c[0], c[1], c[2]));
    float length = sqrtf(gx * gx + gy * gy + gz * gz) + 1.0f;
    float facing = gx * (float)direction[0] + gy * (float)direction[1] + gz * (float)direction[2];
    return 0.3f + 0.7f * (facing > 0.0f ? facing / length : 0.0f);
}

// The first step at or behind the cube's far side, never one inside the next cube too far.
static int behind(int level, const int c[3], const double origin[3], const double direction[3], int step) {
    double nearest = 1e30;
    for (int k = 0; k < 3; k++) {
        if (direction[k] == 0.0)
            continue;
        int wall = (c[k] >> level << level) + (direction[k] > 0.0 ? 1 << level : 0);
        double t = (wall - origin[k]) / direction[k];
        nearest = t < nearest ? t : nearest;
    }
    int next = (int)ceil(nearest - 1e-9);
    return next > step ? next : step + 1;
}

static float cast(const double origin[3], const double direction[3], bool skip) {
    float light = 0.0f, open = 1.0f;
    double enter = 0.0, leave = 1e30;
    for (int k = 0; k < 3; k++) {
        if (direction[k] == 0.0)
            continue;
        double a = (0.0 - origin[k]) / direction[k], b = (side - 1.001 - origin[k]) / direction[k];
        double low = a < b ? a : b, high = a < b ? b : a;
        enter = low > enter ? low : enter;
        leave = high < leave ? high : leave;
    }
    for (int step = (int)enter + 1; step < leave && open > 0.02f;) {
        double p[3];
        int c[3];
        for (int k = 0; k < 3; k++) {
            p[k] = origin[k] + step * direction[k];
            c[k] = p[k] < 0.0 ? 0 : p[k] >= side - 1 ? side - 2 : (int)p[k];
        }
        int level = -1;
        for (int l = levels; skip && l >= 0 && level < 0; l--)
            if (!occupied[l][cube(l, c[0], c[1], c[2])])
                level = l;
        if (level >= 0) {
            step = behind(level, c, origin, direction, step);
            continue;
        }
        float alpha = opacity[(int)sample(p, c)];
        if (alpha > 0.0f) {
            light += open * alpha * shade(c, direction);
            open *= 1.0f - alpha;
        }
        step++;
    }
    return light;
}

int main(int argc, char **argv) {
    double scale = start(argc, argv, "volrend");
    levels = scale < 0.1 ? 5 : 7;
    side = 1 << levels;
    build_volume();
    build_octree();
    int pixels = (int)at_least(8, 600 * sqrt(scale));
    uint64_t sum = 0;
    double total = 0.0;
    for (int frame = 0; frame < FRAMES; frame++) {
        // A turn about the vertical axis, with tangents of half the angle for sine and cosine.
        double t = -0.8 + 0.5 * frame, cosine = (1.0 - t * t) / (1.0 + t * t), sine = 2.0 * t / (1.0 + t * t);
        for (int py = 0; py < pixels; py++)
            for (int px = 0; px < pixels; px++) {
                double u = (px + 0.5) / pixels - 0.5, v = (py + 0.5) / pixels - 0.5;
                double eye[3] = {(0.5 - 1.6 * sine) * side, 0.5 * side, (0.5 - 1.6 * cosine) * side};
                double d[3] = {sine + 0.8 * u * cosine, 0.8 * v, cosine - 0.8 * u * sine};
                double length = sqrt(d[0] * d[0] + d[1] * d[1] + d[2] * d[2]) / 0.7;
                for (int k = 0; k < 3; k++)
                    d[k] /= length;
                float light = cast(eye, d, true);
                if ((py * pixels + px) % 101 == 0 && light != cast(eye, d, false))
                    fail("pixel %d, %d of frame %d differs without the octree", px, py, frame);
                total += light;
                sum = mix_double(sum, light);
            }
    }
    if (!(total > 0.01 * FRAMES * pixels * pixels))
        fail("the pictures are black");
    return finish(sum);
}
