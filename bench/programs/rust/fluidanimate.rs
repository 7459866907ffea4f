//! A fluid of smoothed particles in a box: a dam breaks. Neighbours are found by cells as wide as
//! the particles reach.
mod common;
use common::{Rng, at_least, fail, finish, mix_double, start};
use std::f64::consts::PI;

const CELLS: usize = 12;
const ALL_CELLS: usize = CELLS * CELLS * CELLS;
const SIDES: [usize; 3] = [12, 20, 25];
const PARTICLES: usize = SIDES[0] * SIDES[1] * SIDES[2];
const CHECKED: usize = 50;

const REACH: f64 = 1.0 / CELLS as f64;
const TIME_STEP: f64 = 0.001;
const REST_DENSITY: f64 = 1000.0;
const STIFFNESS: f64 = 20.0;
const VISCOSITY: f64 = 3.0;
const GRAVITY: f64 = -9.8;
/// Of a cube of side 0.04.
const PARTICLE_MASS: f64 = 0.064;

#[derive(Clone, Copy, Default)]
struct Particle {
    at: [f64; 3],
    speed: [f64; 3],
}

struct Fluid {
    particles: Vec<Particle>,
    sorted: Vec<Particle>,
    density: Vec<f64>,
    acceleration: Vec<[f64; 3]>,
    cell_start: Vec<usize>,
}

fn cell_of(p: &Particle) -> usize {
    let [x, y, z] = p.at.map(|at| (at * CELLS as f64) as usize);
    (z * CELLS + y) * CELLS + x
}

fn apart(p: &Particle, q: &Particle) -> [f64; 3] {
    [p.at[0] - q.at[0], p.at[1] - q.at[1], p.at[2] - q.at[2]]
}

fn square(d: [f64; 3]) -> f64 {
    d[0] * d[0] + d[1] * d[1] + d[2] * d[2]
}

/// Calls `visit` with every pair of particles in the same cell or in neighbouring ones.
fn each_pair(cell_start: &[usize], mut visit: impl FnMut(usize, usize)) {
    let inside = |c: usize| cell_start[c]..cell_start[c + 1];
    for c in 0..ALL_CELLS {
        let cell = [c % CELLS, c / CELLS % CELLS, c / CELLS / CELLS];
        for i in inside(c) {
            for j in inside(c).start..i {
                visit(i, j);
            }
        }
        // Half of the 26 neighbours.
        for d in 0..13 {
            let near = [cell[0] + d % 3, cell[1] + d / 3 % 3, cell[2] + d / 9];
            if near.iter().any(|&k| k < 1 || k > CELLS) {
                continue;
            }
            let n = ((near[2] - 1) * CELLS + near[1] - 1) * CELLS + near[0] - 1;
            for i in inside(c) {
                for j in inside(n) {
                    visit(i, j);
                }
            }
        }
    }
}

/// The force of a pair with these densities: on the first, and its opposite on the second.
fn force(p: &Particle, q: &Particle, density: (f64, f64)) -> Option<[f64; 3]> {
    let d = apart(p, q);
    let r2 = square(d);
    if r2 >= REACH * REACH {
        return None;
    }
    let r = r2.sqrt();
    let (left, r6) = (REACH - r, REACH * REACH * REACH * REACH * REACH * REACH);
    let strength = 45.0 / (PI * r6) * PARTICLE_MASS * left / (density.0 * density.1);
    let pressure = 0.5 * STIFFNESS * (density.0 + density.1 - 2.0 * REST_DENSITY);
    let push = if pressure > 0.0 { strength * pressure * left / (r + 1e-9) } else { 0.0 };
    let drag = strength * VISCOSITY;
    let along = |k: usize| push * d[k] + drag * (q.speed[k] - p.speed[k]);
    Some([along(0), along(1), along(2)])
}

/// Moves along one axis; walls take half of the speed.
fn advance_one(position: &mut f64, speed: &mut f64, acceleration: f64) {
    *speed += TIME_STEP * acceleration;
    *position += TIME_STEP * *speed;
    if *position < 0.001 || *position > 0.999 {
        *position = if *position < 0.001 { 0.001 } else { 0.999 };
        *speed *= -0.5;
    }
}

impl Fluid {
    fn sort_into_cells(&mut self) {
        self.cell_start.fill(0);
        for p in &self.particles {
            self.cell_start[cell_of(p) + 1] += 1;
        }
        for c in 0..ALL_CELLS {
            self.cell_start[c + 1] += self.cell_start[c];
        }
        let mut next = self.cell_start.clone();
        for p in &self.particles {
            let place = &mut next[cell_of(p)];
            self.sorted[*place] = *p;
            *place += 1;
        }
        self.particles.copy_from_slice(&self.sorted);
    }

    fn densities(&mut self) {
        let r2 = REACH * REACH;
        let scale = 315.0 / (64.0 * PI * r2 * r2 * r2 * r2 * REACH) * PARTICLE_MASS;
        let Fluid { particles, density, cell_start, .. } = self;
        density.fill(r2 * r2 * r2);
        each_pair(cell_start, |i, j| {
            let left = r2 - square(apart(&particles[i], &particles[j]));
            if left > 0.0 {
                density[i] += left * left * left;
                density[j] += left * left * left;
            }
        });
        density.iter_mut().for_each(|density| *density *= scale);
    }

    fn advance(&mut self) {
        self.sort_into_cells();
        self.densities();
        let Fluid { particles, density, acceleration, cell_start, .. } = self;
        acceleration.fill([0.0, GRAVITY, 0.0]);
        each_pair(cell_start, |i, j| {
            let Some(f) = force(&particles[i], &particles[j], (density[i], density[j])) else {
                return;
            };
            for k in 0..3 {
                acceleration[i][k] += f[k];
                acceleration[j][k] -= f[k];
            }
        });
        for (p, acceleration) in particles.iter_mut().zip(acceleration) {
            for ((at, speed), a) in p.at.iter_mut().zip(&mut p.speed).zip(acceleration) {
                advance_one(at, speed, *a);
            }
        }
    }

    /// Height and motion.
    fn energy(&self) -> f64 {
        let of = |p: &Particle| 0.5 * square(p.speed) - GRAVITY * p.at[1];
        self.particles.iter().fold(0.0, |sum, p| sum + of(p)) / PARTICLES as f64
    }
}

fn main() {
    let steps = at_least(1, 220.0 * start());
    let mut rng = Rng(20);
    let mut random = |i: usize| {
        let places = [i % SIDES[0], i / SIDES[0] % SIDES[1], i / SIDES[0] / SIDES[1]];
        let at = places.map(|place| 0.001 + 0.0399 * (place as f64 + rng.between(0.4, 0.6)));
        Particle { at, speed: [0.0; 3] }
    };
    let mut fluid = Fluid {
        particles: (0..PARTICLES).map(&mut random).collect(),
        sorted: vec![Particle::default(); PARTICLES],
        density: vec![0.0; PARTICLES],
        acceleration: vec![[0.0; 3]; PARTICLES],
        cell_start: vec![0; ALL_CELLS + 1],
    };
    let before = fluid.energy();
    for _ in 0..steps {
        fluid.advance();
    }
    let after = fluid.energy();
    if !(after > 0.0 && after < 1.05 * before) {
        fail!("the energy went from {before} to {after}");
    }
    // The particles' forces on each other, of which each has its opposite.
    let mut total = [0.0, -GRAVITY * PARTICLES as f64, 0.0];
    for acceleration in &fluid.acceleration {
        total.iter_mut().zip(acceleration).for_each(|(total, a)| *total += a);
    }
    if let Some(sum) = total.iter().find(|sum| !(sum.abs() < 1e-6 * PARTICLES as f64)) {
        fail!("the forces add up to {sum} instead of 0");
    }
    fluid.sort_into_cells();
    fluid.densities();
    // The density without cells.
    let r2 = REACH * REACH;
    let pairs = fluid.particles.iter().zip(&fluid.density);
    for (i, (p, density)) in pairs.enumerate().step_by(PARTICLES / CHECKED) {
        let left = fluid.particles.iter().map(|q| r2 - square(apart(p, q)));
        let mut direct: f64 = left.filter(|&left| left > 0.0).map(|l| l * l * l).sum();
        direct *= 315.0 / (64.0 * PI * r2 * r2 * r2 * r2 * REACH) * PARTICLE_MASS;
        if !((direct - density).abs() < 1e-9 * direct) {
            fail!("particle {i}: a density of {density} instead of {direct}");
        }
    }
    finish("fluidanimate", fluid.particles.iter().flat_map(|p| p.at).fold(0, mix_double));
}
