//! A wind-driven ocean basin: vorticity steps, and the stream function from red-black Gauss-Seidel
//! in multigrid.
mod common;
use common::{at_least, fail, finish, mix_double, start};

const LEVELS: usize = 8;
const SIDE: usize = (1 << LEVELS) + 1;
const MOST_CYCLES: usize = 30;

const TIME_STEP: f64 = 0.002;
const VISCOSITY: f64 = 1e-3;
const FRICTION: f64 = 1.0;
const ROTATION: f64 = 5.0;

/// One grid: laplace(u) = f, and the residual r.
struct Grid {
    side: usize,
    spacing: f64,
    u: Vec<f64>,
    f: Vec<f64>,
    r: Vec<f64>,
}

/// Three rows of a grid around row `i`.
fn around(values: &[f64], i: usize, n: usize) -> [&[f64]; 3] {
    [i - 1, i, i + 1].map(|i| &values[i * n..][..n])
}

impl Grid {
    fn of_level(level: usize) -> Grid {
        let side = ((SIDE - 1) >> level) + 1;
        let cells = || vec![0.0; side * side];
        let spacing = 1.0 / (side - 1) as f64;
        Grid { side, spacing, u: cells(), f: cells(), r: cells() }
    }

    fn smooth(&mut self, sweeps: usize) {
        let (n, h2) = (self.side, self.spacing * self.spacing);
        for half in 0..2 * sweeps {
            for i in 1..n - 1 {
                let (before, rest) = self.u.split_at_mut(i * n);
                let (row, after) = rest.split_at_mut(n);
                let (above, below) = (&before[(i - 1) * n..][..n], &after[..n]);
                let f = &self.f[i * n..][..n];
                for j in (1 + (i + half) % 2..n - 1).step_by(2) {
                    let sides = above[j] + below[j] + row[j - 1] + row[j + 1];
                    row[j] = 0.25 * (sides - h2 * f[j]);
                }
            }
        }
    }

    /// Fills r and returns the largest residual.
    fn residual(&mut self) -> f64 {
        let (n, scale) = (self.side, 1.0 / (self.spacing * self.spacing));
        let mut largest = 0.0;
        for i in 1..n - 1 {
            let [above, row, below] = around(&self.u, i, n);
            let (f, r) = (&self.f[i * n..][..n], &mut self.r[i * n..][..n]);
            for j in 1..n - 1 {
                let sides = above[j] + below[j] + row[j - 1] + row[j + 1];
                r[j] = f[j] - scale * (sides - 4.0 * row[j]);
                let size = r[j].abs();
                largest = if size > largest { size } else { largest };
            }
        }
        largest
    }

    fn restrict_from(&mut self, fine: &Grid) {
        let n = self.side;
        self.u.fill(0.0);
        for i in 1..n - 1 {
            let [above, row, below] = around(&fine.r, 2 * i, fine.side);
            for j in 1..n - 1 {
                let k = 2 * j;
                let sides = row[k - 1] + row[k + 1] + above[k] + below[k];
                let corners = above[k - 1] + above[k + 1] + below[k - 1] + below[k + 1];
                self.f[i * n + j] = 0.25 * row[k] + 0.125 * sides + 0.0625 * corners;
            }
        }
    }

    fn correct(&mut self, coarse: &Grid) {
        let (n, m) = (coarse.side, self.side);
        for i in 0..n - 1 {
            let (upper, lower) = self.u[2 * i * m..].split_at_mut(m);
            let (c, d) = (&coarse.u[i * n..][..n], &coarse.u[(i + 1) * n..][..n]);
            for j in 0..n - 1 {
                let k = 2 * j;
                upper[k] += c[j];
                upper[k + 1] += 0.5 * (c[j] + c[j + 1]);
                lower[k] += 0.5 * (c[j] + d[j]);
                lower[k + 1] += 0.25 * (c[j] + c[j + 1] + d[j] + d[j + 1]);
            }
        }
    }
}

/// Smooths a grid, then what is left in the coarser ones behind it.
fn cycle(grids: &mut [Grid]) {
    let Some((fine, coarser)) = grids.split_first_mut() else { return };
    if coarser.is_empty() {
        fine.smooth(1);
        return;
    }
    fine.smooth(2);
    fine.residual();
    coarser[0].restrict_from(fine);
    cycle(coarser);
    fine.correct(&coarser[0]);
    fine.smooth(1);
}

/// New vorticity from the old: advection, rotation, wind, friction and diffusion.
fn step(new: &mut [f64], vorticity: &[f64], stream: &[f64], h: f64) {
    let (slope, curve) = (0.5 / h, 1.0 / (h * h));
    for i in 1..SIDE - 1 {
        let y = i as f64 * h;
        let wind = -4.0 * y * (1.0 - y);
        let [w_above, w, w_below] = around(vorticity, i, SIDE);
        let [psi_above, psi, psi_below] = around(stream, i, SIDE);
        let new = &mut new[i * SIDE..][..SIDE];
        for j in 1..SIDE - 1 {
            let psi_x = (psi[j + 1] - psi[j - 1]) * slope;
            let psi_y = (psi_below[j] - psi_above[j]) * slope;
            let w_x = (w[j + 1] - w[j - 1]) * slope;
            let w_y = (w_below[j] - w_above[j]) * slope;
            let sides = w_above[j] + w_below[j] + w[j - 1] + w[j + 1];
            let laplace = (sides - 4.0 * w[j]) * curve;
            let moved = psi_y * w_x - psi_x * w_y - ROTATION * psi_x;
            let change = moved + wind - FRICTION * w[j] + VISCOSITY * laplace;
            new[j] = w[j] + TIME_STEP * change;
        }
    }
}

fn main() {
    let steps = at_least(1, 500.0 * start());
    let mut grids: Vec<Grid> = (0..LEVELS).map(Grid::of_level).collect();
    let mut vorticity = vec![0.0; SIDE * SIDE];
    for s in 0..steps {
        let Grid { u, f, spacing, .. } = &mut grids[0];
        step(f, &vorticity, u, *spacing);
        vorticity.copy_from_slice(f);
        let mut cycles = 0;
        loop {
            cycles += 1;
            if cycles > MOST_CYCLES {
                fail!("step {s}: no solution after {MOST_CYCLES} cycles");
            }
            cycle(&mut grids);
            if grids[0].residual() < 1e-7 {
                break;
            }
        }
    }
    // The kinetic energy from the flow, and by parts from stream function and vorticity.
    let (mut energy, mut by_parts, mut sum) = (0.0, 0.0, 0);
    let Grid { u, spacing, .. } = &grids[0];
    for i in 0..SIDE - 1 {
        for j in 0..SIDE - 1 {
            let c = i * SIDE + j;
            let (x, y) = (u[c + 1] - u[c], u[c + SIDE] - u[c]);
            energy += x * x + y * y;
            by_parts -= u[c] * vorticity[c] * spacing * spacing;
            sum = mix_double(sum, u[c]);
        }
    }
    if !(energy > 0.0 && (energy - by_parts).abs() < 1e-5 * energy) {
        fail!("the energy is {energy} by flow, {by_parts} by vorticity");
    }
    finish("ocean", sum);
}
