//! Molecular dynamics of three-site molecules, every pair of molecules looked at in every step.
mod common;
use common::{Rng, at_least, fail, finish, mix_double, start};

const SIDE: usize = 7;
const MOLECULES: usize = SIDE * SIDE * SIDE;
const SITES: usize = 3;

const SPACING: f64 = 1.2;
const ROOM: f64 = SIDE as f64 * SPACING;
const CUTOFF: f64 = 2.5;
const TIME_STEP: f64 = 0.001;
const BOND_STIFFNESS: f64 = 100.0;
const MASS: [f64; SITES] = [1.0, 0.1, 0.1];
const CHARGE: [f64; SITES] = [-0.6, 0.3, 0.3];
/// Distances at rest: oxygen to each hydrogen, and between these.
const BONDS: [(usize, usize, f64); 3] = [(0, 1, 0.35), (0, 2, 0.35), (1, 2, 0.5534)];

/// A vector for each site.
type Molecule = [[f64; 3]; SITES];

struct Water {
    position: Vec<Molecule>,
    velocity: Vec<Molecule>,
    force: Vec<Molecule>,
}

fn spring(position: &Molecule, force: &mut Molecule, bond: (usize, usize, f64)) -> f64 {
    let ((a, b, length), mut d) = (bond, [0.0; 3]);
    for k in 0..3 {
        d[k] = position[a][k] - position[b][k];
    }
    let r = f64::sqrt(d[0] * d[0] + d[1] * d[1] + d[2] * d[2]);
    let f = -BOND_STIFFNESS * (r - length) / r;
    for k in 0..3 {
        force[a][k] += f * d[k];
        force[b][k] -= f * d[k];
    }
    0.5 * BOND_STIFFNESS * (r - length) * (r - length)
}

/// Charges attract and repel; oxygens repel as well. Energy and force go to zero at the cutoff.
fn pair(
    p: &Molecule,
    q: &Molecule,
    shift: [f64; 3],
    on_p: &mut Molecule,
    on_q: &mut Molecule,
) -> f64 {
    let c2 = 1.0 / (CUTOFF * CUTOFF);
    let c6 = c2 * c2 * c2;
    let (lj_cut, lj_slope) = (4.0 * (c6 * c6 - c6), -24.0 * (2.0 * c6 * c6 - c6) / CUTOFF);
    let mut energy = 0.0;
    for a in 0..SITES {
        for b in 0..SITES {
            let x = p[a][0] - q[b][0] + shift[0];
            let y = p[a][1] - q[b][1] + shift[1];
            let z = p[a][2] - q[b][2] + shift[2];
            let r2 = x * x + y * y + z * z;
            if r2 >= CUTOFF * CUTOFF {
                continue;
            }
            let r = r2.sqrt();
            let (inverse, qq) = (1.0 / r, CHARGE[a] * CHARGE[b]);
            energy += qq * (inverse - 1.0 / CUTOFF + (r - CUTOFF) * c2);
            let mut f = qq * (inverse * inverse - c2) * inverse;
            if a + b == 0 {
                let i2 = inverse * inverse;
                let i6 = i2 * i2 * i2;
                energy += 4.0 * (i6 * i6 - i6) - lj_cut - (r - CUTOFF) * lj_slope;
                f += (24.0 * (2.0 * i6 * i6 - i6) * inverse + lj_slope) * inverse;
            }
            for (k, d) in [x, y, z].into_iter().enumerate() {
                on_p[a][k] += f * d;
                on_q[b][k] -= f * d;
            }
        }
    }
    energy
}

impl Water {
    fn new() -> Water {
        let (mut rng, mut total) = (Rng(1), [0.0; 3]);
        let zero = vec![[[0.0; 3]; SITES]; MOLECULES];
        let mut water = Water { position: zero.clone(), velocity: zero.clone(), force: zero };
        let molecules = water.position.iter_mut().zip(&mut water.velocity);
        for (i, (position, velocity)) in molecules.enumerate() {
            let cell = [i % SIDE, i / SIDE % SIDE, i / SIDE / SIDE];
            let axis = rng.below(3) as usize;
            let arm = if rng.below(2) == 1 { BONDS[0].2 } else { -BONDS[0].2 };
            *position = [cell.map(|cell| cell as f64 * SPACING + 0.6); SITES];
            position[1][axis] += arm;
            position[2][axis] -= arm * 0.25038;
            position[2][(axis + 1) % 3] += arm * 0.96815;
            for k in 0..3 {
                let v = rng.between(-1.0, 1.0);
                for site in velocity.iter_mut() {
                    site[k] = v;
                    total[k] += v;
                }
            }
        }
        for site in water.velocity.as_flattened_mut() {
            for (v, total) in site.iter_mut().zip(total) {
                *v -= total / (MOLECULES * SITES) as f64;
            }
        }
        water
    }

    /// The potential energy; fills the forces.
    fn forces(&mut self) -> f64 {
        let Water { position, force, .. } = self;
        let (mut energy, reach) = (0.0, CUTOFF + 2.0 * 0.45);
        force.fill([[0.0; 3]; SITES]);
        for i in 0..MOLECULES {
            let [first, second, third] =
                BONDS.map(|bond| spring(&position[i], &mut force[i], bond));
            energy += first + second + third;
            for j in i + 1..MOLECULES {
                let (mut shift, mut r2) = ([0.0; 3], 0.0);
                for (k, shift) in shift.iter_mut().enumerate() {
                    let d = position[i][0][k] - position[j][0][k];
                    *shift = if d > 0.5 * ROOM {
                        -ROOM
                    } else if d < -0.5 * ROOM {
                        ROOM
                    } else {
                        0.0
                    };
                    r2 += (d + *shift) * (d + *shift);
                }
                if r2 < reach * reach {
                    let (before, after) = force.split_at_mut(j);
                    let (on_i, on_j) = (&mut before[i], &mut after[0]);
                    energy += pair(&position[i], &position[j], shift, on_i, on_j);
                }
            }
        }
        energy
    }

    fn kick(&mut self, dt: f64) {
        for (velocity, force) in self.velocity.iter_mut().zip(&self.force) {
            for s in 0..SITES {
                for k in 0..3 {
                    velocity[s][k] += dt / MASS[s] * force[s][k];
                }
            }
        }
    }

    fn drift(&mut self, dt: f64) {
        for (position, velocity) in self.position.iter_mut().zip(&self.velocity) {
            for k in 0..3 {
                for s in 0..SITES {
                    position[s][k] += dt * velocity[s][k];
                }
                let oxygen = position[0][k];
                let wrap = if oxygen >= ROOM {
                    -ROOM
                } else if oxygen < 0.0 {
                    ROOM
                } else {
                    0.0
                };
                for site in position.iter_mut() {
                    site[k] += wrap;
                }
            }
        }
    }

    fn kinetic(&self) -> f64 {
        let mut energy = 0.0;
        for velocity in &self.velocity {
            for (mass, v) in MASS.iter().zip(velocity) {
                for v in v {
                    energy += 0.5 * mass * v * v;
                }
            }
        }
        energy
    }

    /// Is this force the slope of the energy?
    fn check_force(&mut self, i: usize, s: usize, k: usize) {
        let (step, place) = (1e-5, self.position[i][s][k]);
        self.position[i][s][k] = place + step;
        let above = self.forces();
        self.position[i][s][k] = place - step;
        let slope = (above - self.forces()) / (2.0 * step);
        self.position[i][s][k] = place;
        self.forces();
        let force = self.force[i][s][k];
        if !((force + slope).abs() < 1e-5 * (1.0 + slope.abs())) {
            fail!("a force of {force} where the energy's slope is {slope}");
        }
    }
}

fn main() {
    let steps = at_least(1, 1000.0 * start());
    let mut water = Water::new();
    let mut potential = water.forces();
    let moving = water.kinetic();
    let energy = potential + moving;
    for _ in 0..steps {
        water.kick(0.5 * TIME_STEP);
        water.drift(TIME_STEP);
        potential = water.forces();
        water.kick(0.5 * TIME_STEP);
    }
    let change = potential + water.kinetic() - energy;
    if !(change.abs() < 0.01 * moving) {
        fail!("the energy went from {energy} to {}", energy + change);
    }
    water.check_force(MOLECULES / 3, 0, 1);
    water.check_force(MOLECULES / 2, 1, 2);
    let mut sum = 0;
    for k in 0..3 {
        let mut momentum: f64 = 0.0;
        for (position, velocity) in water.position.iter().zip(&water.velocity) {
            for s in 0..SITES {
                momentum += MASS[s] * velocity[s][k];
                sum = mix_double(sum, position[s][k]);
            }
        }
        if !(momentum.abs() < 1e-8) {
            fail!("the momentum is {momentum} instead of 0");
        }
    }
    finish("water", sum);
}
