// A fluid of smoothed particles in a box: a dam breaks. Neighbours are found by cells as wide as the particles reach.
#include "common.h"

enum { CELLS = 12, ALL_CELLS = CELLS * CELLS * CELLS };
enum { NX = 12, NY = 20, NZ = 25, PARTICLES = NX * NY * NZ, CHECKED = 50 };

static const double reach = 1.0 / CELLS, time_step = 0.001, rest_density = 1000.0;
static const double stiffness = 20.0, viscosity = 3.0, gravity = -9.8;
static const double particle_mass = 0.064; // of a cube of side 0.04

typedef struct {
    double x, y, z, vx, vy, vz;
} Particle;

static Particle particles[PARTICLES], sorted[PARTICLES];
static double density[PARTICLES], ax[PARTICLES], ay[PARTICLES], az[PARTICLES];
static int cell_start[ALL_CELLS + 1];

static int cell_of(const Particle *p) {
    return ((int)(p->z * CELLS) * CELLS + (int)(p->y * CELLS)) * CELLS + (int)(p->x * CELLS);
}

static void sort_into_cells(void) {
    int next[ALL_CELLS];
    memset(cell_start, 0, sizeof cell_start);
    for (int i = 0; i < PARTICLES; i++)
        cell_start[cell_of(&particles[i]) + 1]++;
    for (int c = 0; c < ALL_CELLS; c++) {
        cell_start[c + 1] += cell_start[c];
        next[c] = cell_start[c];
    }
    for (int i = 0; i < PARTICLES; i++)
        sorted[next[cell_of(&particles[i])]++] = particles[i];
    memcpy(particles, sorted, sizeof particles);
}

static void add_density(int i, int j) {
    double x = particles[i].x - particles[j].x, y = particles[i].y - particles[j].y;
    double z = particles[i].z - particles[j].z;
    double left = reach * reach - (x * x + y * y + z * z);
    if (left > 0.0) {
        density[i] += left * left * left;
        density[j] += left * left * left;
    }
}

static void add_force(int i, int j) {
    const Particle *p = &particles[i], *q = &particles[j];
    double x = p->x - q->x, y = p->y - q->y, z = p->z - q->z, r2 = x * x + y * y + z * z;
    if (r2 >= reach * reach)
        return;
    double r = sqrt(r2), left = reach - r, r6 = reach * reach * reach * reach * reach * reach;
    double strength = 45.0 / (PI * r6) * particle_mass * left / (density[i] * density[j]);
    double pressure = 0.5 * stiffness * (density[i] + density[j] - 2.0 * rest_density);
    double push = pressure > 0.0 ? strength * pressure * left / (r + 1e-9) : 0.0, drag = strength * viscosity;
    double fx = push * x + drag * (q->vx - p->vx), fy = push * y + drag * (q->vy - p->vy);
    double fz = push * z + drag * (q->vz - p->vz);
    ax[i] += fx, ay[i] += fy, az[i] += fz;
    ax[j] -= fx, ay[j] -= fy, az[j] -= fz;
}

// Calls visit with every pair of particles in the same cell or in neighbouring ones.
static inline void each_pair(void (*visit)(int, int)) {
    for (int c = 0; c < ALL_CELLS; c++) {
        int cx = c % CELLS, cy = c / CELLS % CELLS, cz = c / CELLS / CELLS;
        for (int i = cell_start[c]; i < cell_start[c + 1]; i++)
            for (int j = cell_start[c]; j < i; j++)
                visit(i, j);
        for (int d = 0; d < 13; d++) { // half of the 26 neighbours
            int x = cx + d % 3 - 1, y = cy + d / 3 % 3 - 1, z = cz + d / 9 - 1;
            if (x < 0 || x >= CELLS || y < 0 || y >= CELLS || z < 0 || z >= CELLS)
                continue;
            int n = (z * CELLS + y) * CELLS + x;
            for (int i = cell_start[c]; i < cell_start[c + 1]; i++)
                for (int j = cell_start[n]; j < cell_start[n + 1]; j++)
                    visit(i, j);
        }
    }
}

static void densities(void) {
    double r2 = reach * reach, scale = 315.0 / (64.0 * PI * r2 * r2 * r2 * r2 * reach) * particle_mass;
    for (int i = 0; i < PARTICLES; i++)
        density[i] = r2 * r2 * r2;
    each_pair(add_density);
    for (int i = 0; i < PARTICLES; i++)
        density[i] *= scale;
}

// Moves along one axis; walls take half of the speed.
static void move(double *position, double *speed, double acceleration) {
    *speed += time_step * acceleration;
    *position += time_step * *speed;
    if (*position < 0.001 || *position > 0.999) {
        *position = *position < 0.001 ? 0.001 : 0.999;
        *speed *= -0.5;
    }
}

static void advance(void) {
    sort_into_cells();
    densities();
    for (int i = 0; i < PARTICLES; i++)
        ax[i] = az[i] = 0.0, ay[i] = gravity;
    each_pair(add_force);
    for (int i = 0; i < PARTICLES; i++) {
        Particle *p = &particles[i];
        move(&p->x, &p->vx, ax[i]);
        move(&p->y, &p->vy, ay[i]);
        move(&p->z, &p->vz, az[i]);
    }
}

// Height and motion.
static double energy(void) {
    double sum = 0.0;
    for (int i = 0; i < PARTICLES; i++) {
        const Particle *p = &particles[i];
        sum += 0.5 * (p->vx * p->vx + p->vy * p->vy + p->vz * p->vz) - gravity * p->y;
    }
    return sum / PARTICLES;
}

int main(int argc, char **argv) {
    double scale = start(argc, argv, "fluidanimate");
    size_t steps = at_least(1, 220 * scale);
    uint64_t rng = 20, sum = 0;
    for (int i = 0; i < PARTICLES; i++) {
        int c[3] = {i % NX, i / NX % NY, i / NX / NY};
        double *at[3] = {&particles[i].x, &particles[i].y, &particles[i].z};
        for (int k = 0; k < 3; k++)
            *at[k] = 0.001 + 0.0399 * (c[k] + rng_between(&rng, 0.4, 0.6));
    }
    double before = energy();
    for (size_t step = 0; step < steps; step++)
        advance();
    double after = energy();
    if (!(after > 0.0 && after < 1.05 * before))
        fail("the energy went from %g to %g", before, after);
    double total[3] = {0}; // the particles' forces on each other, of which each has its opposite
    for (int i = 0; i < PARTICLES; i++)
        total[0] += ax[i], total[1] += ay[i] - gravity, total[2] += az[i];
    for (int k = 0; k < 3; k++)
        if (!(fabs(total[k]) < 1e-6 * PARTICLES))
            fail("the forces add up to %g instead of 0", total[k]);
    sort_into_cells();
    densities();
    for (int i = 0; i < PARTICLES; i += PARTICLES / CHECKED) { // the density without cells
        double direct = 0.0, r2 = reach * reach;
        for (int j = 0; j < PARTICLES; j++) {
            double x = particles[i].x - particles[j].x, y = particles[i].y - particles[j].y;
            double z = particles[i].z - particles[j].z, left = r2 - (x * x + y * y + z * z);
            direct += left > 0.0 ? left * left * left : 0.0;
        }
        direct *= 315.0 / (64.0 * PI * r2 * r2 * r2 * r2 * reach) * particle_mass;
        if (!(fabs(direct - density[i]) < 1e-9 * direct))
            fail("particle %d: a density of %g instead of %g", i, density[i], direct);
    }
    for (int i = 0; i < PARTICLES; i++)
        sum = mix_double(mix_double(mix_double(sum, particles[i].x), particles[i].y), particles[i].z);
    return finish(sum);
}
