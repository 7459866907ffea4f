// Molecular dynamics of three-site molecules, every pair of molecules looked at in every step.
#include "common.h"

enum { SIDE = 7, MOLECULES = SIDE * SIDE * SIDE, SITES = 3 };

static const double box = SIDE * 1.2;
static const double cutoff = 2.5;
static const double time_step = 0.001;
static const double bond_stiffness = 100.0;
static const double mass[SITES] = {1.0, 0.1, 0.1};
static const double charge[SITES] = {-0.6, 0.3, 0.3};
// Distances at rest: oxygen to each hydrogen, and between these.
static const double bond_length = 0.35;
static const double angle_length = 0.5534;

static double position[MOLECULES][SITES][3];
static double velocity[MOLECULES][SITES][3];
static double force[MOLECULES][SITES][3];

static void build(void) {
    uint64_t rng = 1;
    double total[3] = {0};
    for (int i = 0; i < MOLECULES; i++) {
        int cell[3] = {i % SIDE, i / SIDE % SIDE, i / SIDE / SIDE};
        int axis = (int)rng_below(&rng, 3);
        double sign = rng_below(&rng, 2) ? 1.0 : -1.0;
        for (int k = 0; k < 3; k++)
            for (int s = 0; s < SITES; s++)
                position[i][s][k] = cell[k] * 1.2 + 0.6;
        position[i][1][axis] += sign * bond_length;
        position[i][2][axis] -= sign * bond_length * 0.25038;
        position[i][2][(axis + 1) % 3] += sign * bond_length * 0.96815;
        for (int k = 0; k < 3; k++) {
            double v = rng_between(&rng, -1.0, 1.0);
            for (int s = 0; s < SITES; s++) {
                velocity[i][s][k] = v;
                total[k] += v;
            }
        }
    }
    for (int i = 0; i < MOLECULES; i++)
        for (int s = 0; s < SITES; s++)
            for (int k = 0; k < 3; k++)
                velocity[i][s][k] -= total[k] / (MOLECULES * SITES);
}

static double spring(int i, int a, int b, double length) {
    double d[3];
    for (int k = 0; k < 3; k++)
        d[k] = position[i][a][k] - position[i][b][k];
    double r = sqrt(d[0] * d[0] + d[1] * d[1] + d[2] * d[2]);
    double f = -bond_stiffness * (r - length) / r;
    for (int k = 0; k < 3; k++) {
        force[i][a][k] += f * d[k];
        force[i][b][k] -= f * d[k];
    }
    return 0.5 * bond_stiffness * (r - length) * (r - length);
}

// Charges attract and repel; oxygens repel as well. Energy and force go to zero at the cutoff.
static double pair(int i, int j, const double shift[3]) {
    double c2 = 1.0 / (cutoff * cutoff), c6 = c2 * c2 * c2;
    double lj_cut = 4.0 * (c6 * c6 - c6), lj_slope = -24.0 * (2.0 * c6 * c6 - c6) / cutoff;
    double energy = 0.0;
    for (int a = 0; a < SITES; a++)
        for (int b = 0; b < SITES; b++) {
            double x = position[i][a][0] - position[j][b][0] + shift[0];
            double y = position[i][a][1] - position[j][b][1] + shift[1];
            double z = position[i][a][2] - position[j][b][2] + shift[2];
            double r2 = x * x + y * y + z * z;
            if (r2 >= cutoff * cutoff)
                continue;
            double r = sqrt(r2), inverse = 1.0 / r, qq = charge[a] * charge[b];
            energy += qq * (inverse - 1.0 / cutoff + (r - cutoff) * c2);
            double f = qq * (inverse * inverse - c2) * inverse;
            if (a + b == 0) {
                double i2 = inverse * inverse, i6 = i2 * i2 * i2;
                energy += 4.0 * (i6 * i6 - i6) - lj_cut - (r - cutoff) * lj_slope;
                f += (24.0 * (2.0 * i6 * i6 - i6) * inverse + lj_slope) * inverse;
            }
            force[i][a][0] += f * x;
            force[i][a][1] += f * y;
            force[i][a][2] += f * z;
            force[j][b][0] -= f * x;
            force[j][b][1] -= f * y;
            force[j][b][2] -= f * z;
        }
    return energy;
}

// The potential energy; fills force.
static double forces(void) {
    double energy = 0.0, reach = cutoff + 2.0 * 0.45;
    memset(force, 0, sizeof force);
    for (int i = 0; i < MOLECULES; i++) {
        energy += spring(i, 0, 1, bond_length) + spring(i, 0, 2, bond_length) + spring(i, 1, 2, angle_length);
        for (int j = i + 1; j < MOLECULES; j++) {
            double shift[3], r2 = 0.0;
            for (int k = 0; k < 3; k++) {
                double d = position[i][0][k] - position[j][0][k];
                shift[k] = d > 0.5 * box ? -box : d < -0.5 * box ? box : 0.0;
                r2 += (d + shift[k]) * (d + shift[k]);
            }
            if (r2 < reach * reach)
                energy += pair(i, j, shift);
        }
    }
    return energy;
}

static void kick(double dt) {
    for (int i = 0; i < MOLECULES; i++)
        for (int s = 0; s < SITES; s++)
            for (int k = 0; k < 3; k++)
                velocity[i][s][k] += dt / mass[s] * force[i][s][k];
}

static void drift(double dt) {
    for (int i = 0; i < MOLECULES; i++)
        for (int k = 0; k < 3; k++) {
            for (int s = 0; s < SITES; s++)
                position[i][s][k] += dt * velocity[i][s][k];
            double oxygen = position[i][0][k];
            double wrap = oxygen >= box ? -box : oxygen < 0.0 ? box : 0.0;
            for (int s = 0; s < SITES; s++)
                position[i][s][k] += wrap;
        }
}

static double kinetic(void) {
    double energy = 0.0;
    for (int i = 0; i < MOLECULES; i++)
        for (int s = 0; s < SITES; s++)
            for (int k = 0; k < 3; k++)
                energy += 0.5 * mass[s] * velocity[i][s][k] * velocity[i][s][k];
    return energy;
}

// Is this force the slope of the energy?
static void check_force(int i, int s, int k) {
    const double step = 1e-5, place = position[i][s][k];
    position[i][s][k] = place + step;
    double slope = forces();
    position[i][s][k] = place - step;
    slope = (slope - forces()) / (2.0 * step);
    position[i][s][k] = place;
    forces();
    if (!(fabs(force[i][s][k] + slope) < 1e-5 * (1.0 + fabs(slope))))
        fail("a force of %g where the energy's slope is %g", force[i][s][k], slope);
}

int main(int argc, char **argv) {
    double scale = start(argc, argv, "water");
    size_t steps = at_least(1, 1000 * scale);
    build();
    double potential = forces(), energy = potential + kinetic(), moving = kinetic();
    for (size_t step = 0; step < steps; step++) {
        kick(0.5 * time_step);
        drift(time_step);
        potential = forces();
        kick(0.5 * time_step);
    }
    double change = potential + kinetic() - energy;
    if (!(fabs(change) < 0.01 * moving))
        fail("the energy went from %g to %g", energy, energy + change);
    check_force(MOLECULES / 3, 0, 1);
    check_force(MOLECULES / 2, 1, 2);
    uint64_t sum = 0;
    for (int k = 0; k < 3; k++) {
        double momentum = 0.0;
        for (int i = 0; i < MOLECULES; i++)
            for (int s = 0; s < SITES; s++) {
                momentum += mass[s] * velocity[i][s][k];
                sum = mix_double(sum, position[i][s][k]);
            }
        if (!(fabs(momentum) < 1e-8))
            fail("the momentum is %g instead of 0", momentum);
    }
    return finish(sum);
}
