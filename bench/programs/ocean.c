// A wind-driven ocean basin: vorticity steps, and the stream function from red-black Gauss-Seidel in multigrid.
#include "common.h"

enum { LEVELS = 8, SIDE = (1 << LEVELS) + 1, MOST_CYCLES = 30 };

static const double time_step = 0.002, viscosity = 1e-3, friction = 1.0, rotation = 5.0;

// One grid: laplace(u) = f, and the residual r.
typedef struct {
    int side;
    double spacing;
    double *u, *f, *r;
} Grid;

static Grid grids[LEVELS];

static void build(void) {
    for (int level = 0; level < LEVELS; level++) {
        Grid *g = &grids[level];
        g->side = ((SIDE - 1) >> level) + 1;
        g->spacing = 1.0 / (g->side - 1);
        size_t cells = (size_t)g->side * (size_t)g->side;
        g->u = allocate(cells, sizeof *g->u);
        g->f = allocate(cells, sizeof *g->f);
        g->r = allocate(cells, sizeof *g->r);
    }
}

static void smooth(Grid *g, int sweeps) {
    int n = g->side;
    double h2 = g->spacing * g->spacing;
    for (int half = 0; half < 2 * sweeps; half++)
        for (int i = 1; i < n - 1; i++) {
            double *u = g->u + i * n;
            const double *f = g->f + i * n;
            for (int j = 1 + (i + half) % 2; j < n - 1; j += 2)
                u[j] = 0.25 * (u[j - n] + u[j + n] + u[j - 1] + u[j + 1] - h2 * f[j]);
        }
}

// Fills r and returns the largest residual.
static double residual(Grid *g) {
    int n = g->side;
    double scale = 1.0 / (g->spacing * g->spacing), largest = 0.0;
    for (int i = 1; i < n - 1; i++) {
        const double *u = g->u + i * n, *f = g->f + i * n;
        double *r = g->r + i * n;
        for (int j = 1; j < n - 1; j++) {
            r[j] = f[j] - scale * (u[j - n] + u[j + n] + u[j - 1] + u[j + 1] - 4.0 * u[j]);
            double size = fabs(r[j]);
            largest = size > largest ? size : largest;
        }
    }
    return largest;
}

static void restrict_to(Grid *coarse, const Grid *fine) {
    int n = coarse->side, m = fine->side;
    memset(coarse->u, 0, sizeof(double) * (size_t)n * (size_t)n);
    for (int i = 1; i < n - 1; i++)
        for (int j = 1; j < n - 1; j++) {
            const double *r = fine->r + 2 * i * m + 2 * j;
            coarse->f[i * n + j] = 0.25 * r[0] + 0.125 * (r[-1] + r[1] + r[-m] + r[m]) +
                                   0.0625 * (r[-m - 1] + r[-m + 1] + r[m - 1] + r[m + 1]);
        }
}

static void correct(Grid *fine, const Grid *coarse) {
    int n = coarse->side, m = fine->side;
    for (int i = 0; i < n - 1; i++)
        for (int j = 0; j < n - 1; j++) {
            const double *c = coarse->u + i * n + j;
            double *u = fine->u + 2 * i * m + 2 * j;
            u[0] += c[0];
            u[1] += 0.5 * (c[0] + c[1]);
            u[m] += 0.5 * (c[0] + c[n]);
            u[m + 1] += 0.25 * (c[0] + c[1] + c[n] + c[n + 1]);
        }
}

static void cycle(int level) {
    Grid *g = &grids[level];
    if (level == LEVELS - 1) {
        smooth(g, 1);
        return;
    }
    smooth(g, 2);
    residual(g);
    restrict_to(&grids[level + 1], g);
    cycle(level + 1);
    correct(g, &grids[level + 1]);
    smooth(g, 1);
}

// New vorticity from the old: advection, rotation, wind, friction and diffusion.
static void step(double *restrict new, const double *restrict w, const double *restrict psi) {
    const int n = SIDE;
    double h = grids[0].spacing, slope = 0.5 / h, curve = 1.0 / (h * h);
    for (int i = 1; i < n - 1; i++) {
        double y = i * h, wind = -4.0 * y * (1.0 - y);
        for (int j = 1; j < n - 1; j++) {
            int c = i * n + j;
            double psi_x = (psi[c + 1] - psi[c - 1]) * slope, psi_y = (psi[c + n] - psi[c - n]) * slope;
            double w_x = (w[c + 1] - w[c - 1]) * slope, w_y = (w[c + n] - w[c - n]) * slope;
            double laplace = (w[c - n] + w[c + n] + w[c - 1] + w[c + 1] - 4.0 * w[c]) * curve;
            new[c] = w[c] + time_step * (psi_y * w_x - psi_x * w_y - rotation * psi_x + wind - friction * w[c] +
                                         viscosity * laplace);
        }
    }
}

int main(int argc, char **argv) {
    double scale = start(argc, argv, "ocean");
    size_t steps = at_least(1, 500 * scale);
    build();
    Grid *top = &grids[0];
    double *vorticity = allocate((size_t)SIDE * SIDE, sizeof *vorticity);
    for (size_t s = 0; s < steps; s++) {
        step(top->f, vorticity, top->u);
        memcpy(vorticity, top->f, sizeof(double) * SIDE * SIDE);
        int cycles = 0;
        do {
            if (++cycles > MOST_CYCLES)
                fail("step %zu: no solution after %d cycles", s, MOST_CYCLES);
            cycle(0);
        } while (!(residual(top) < 1e-7));
    }
    // The kinetic energy from the flow, and by parts from stream function and vorticity.
    double energy = 0.0, by_parts = 0.0;
    uint64_t sum = 0;
    for (int i = 0; i < SIDE - 1; i++)
        for (int j = 0; j < SIDE - 1; j++) {
            const double *u = top->u + i * SIDE + j;
            energy += (u[1] - u[0]) * (u[1] - u[0]) + (u[SIDE] - u[0]) * (u[SIDE] - u[0]);
            by_parts -= u[0] * vorticity[i * SIDE + j] * top->spacing * top->spacing;
            sum = mix_double(sum, u[0]);
        }
    if (!(energy > 0.0 && fabs(energy - by_parts) < 1e-5 * energy))
        fail("the energy is %g by flow, %g by vorticity", energy, by_parts);
    return finish(sum);
}
