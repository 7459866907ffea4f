//! Ray casting through a volume, with an octree to skip what is empty, and rays that end when
//! nothing shines through.
mod common;
use common::{Rng, at_least, fail, finish, mix_double, start};

const THRESHOLD: u8 = 40;
const BLOBS: usize = 60;
const FRAMES: usize = 4;

struct Volume {
    /// 1 << levels voxels a side.
    side: usize,
    levels: usize,
    voxels: Vec<u8>,
    /// By level: does a cube of 1 << level cells a side hold anything?
    occupied: Vec<Vec<bool>>,
    opacity: [f32; 256],
}

/// The cube that holds a cell.
fn cube(levels: usize, level: usize, [x, y, z]: [usize; 3]) -> usize {
    let bits = levels - level;
    ((z >> level) << (2 * bits)) + ((y >> level) << bits) + (x >> level)
}

impl Volume {
    fn new(levels: usize) -> Volume {
        let side = 1 << levels;
        let opacity = |v: usize| match v as u8 {
            v @ THRESHOLD.. => 0.12 * f32::from(v - THRESHOLD) / 215.0 + 0.01,
            _ => 0.0,
        };
        let mut volume = Volume {
            side,
            levels,
            voxels: vec![0; side * side * side],
            occupied: Vec::new(),
            opacity: std::array::from_fn(opacity),
        };
        volume.add_balls();
        volume.build_octree();
        volume
    }

    fn place(&self, c: [usize; 3]) -> usize {
        cube(self.levels, 0, c)
    }

    fn voxel(&self, x: usize, y: usize, z: usize) -> u8 {
        self.voxels[self.place([x, y, z])]
    }

    /// Balls whose density falls from the middle to the surface.
    fn add_balls(&mut self) {
        let (mut rng, side) = (Rng(3), self.side as f64);
        for _ in 0..BLOBS {
            let radius = rng.between(0.03, 0.12) * side;
            let most = rng.between(90.0, 250.0);
            let c: [f64; 3] = std::array::from_fn(|_| rng.between(0.15, 0.85) * side);
            let [xs, ys, zs] =
                c.map(|c| (c - radius) as usize..=((c + radius) as usize).min(self.side - 1));
            for z in zs {
                for y in ys.clone() {
                    for x in xs.clone() {
                        let d = [x as f64 - c[0], y as f64 - c[1], z as f64 - c[2]];
                        let d2 = d[0] * d[0] + d[1] * d[1] + d[2] * d[2];
                        let value = most * (1.0 - d2 / (radius * radius));
                        let place = self.place([x, y, z]);
                        let voxel = &mut self.voxels[place];
                        if value > f64::from(*voxel) {
                            *voxel = value as u8;
                        }
                    }
                }
            }
        }
    }

    fn build_octree(&mut self) {
        let (side, levels) = (self.side, self.levels);
        let level = |level: usize| vec![false; 1 << (3 * (levels - level))];
        self.occupied = (0..=levels).map(level).collect();
        let each = |step: usize, visit: &mut dyn FnMut([usize; 3])| {
            for z in (0..side).step_by(step) {
                for y in (0..side).step_by(step) {
                    (0..side).step_by(step).for_each(|x| visit([x, y, z]));
                }
            }
        };
        let Volume { voxels, occupied, .. } = self;
        each(1, &mut |[x, y, z]| {
            if voxels[cube(levels, 0, [x, y, z])] < THRESHOLD {
                return;
            }
            // The eight cells that it is a corner of.
            for corner in 0..8 {
                let (x, y) = (x.checked_sub(corner & 1), y.checked_sub(corner >> 1 & 1));
                if let (Some(x), Some(y), Some(z)) = (x, y, z.checked_sub(corner >> 2)) {
                    occupied[0][cube(levels, 0, [x, y, z])] = true;
                }
            }
        });
        for level in 1..=levels {
            each(1 << (level - 1), &mut |c| {
                let below = occupied[level - 1][cube(levels, level - 1, c)];
                occupied[level][cube(levels, level, c)] |= below;
            });
        }
    }

    /// The value between the eight voxels of a cell.
    fn sample(&self, p: [f64; 3], c: [usize; 3]) -> f32 {
        let [x, y, z] = [0, 1, 2].map(|k| (p[k] - c[k] as f64) as f32);
        let between = |from: f32, to: f32, share: f32| from + share * (to - from);
        let row = |dy: usize, dz: usize| {
            let v = &self.voxels[self.place([c[0], c[1] + dy, c[2] + dz])..];
            between(f32::from(v[0]), f32::from(v[1]), x)
        };
        between(between(row(0, 0), row(1, 0), y), between(row(0, 1), row(1, 1), y), z)
    }

    /// Brighter where the volume gets denser away from the eye.
    fn shade(&self, [x, y, z]: [usize; 3], direction: [f64; 3]) -> f32 {
        let here = f32::from(self.voxel(x, y, z));
        let gx = f32::from(self.voxel(x + 1, y, z)) - here;
        let gy = f32::from(self.voxel(x, y + 1, z)) - here;
        let gz = f32::from(self.voxel(x, y, z + 1)) - here;
        let length = (gx * gx + gy * gy + gz * gz).sqrt() + 1.0;
        let [dx, dy, dz] = direction.map(|d| d as f32);
        let facing = gx * dx + gy * dy + gz * dz;
        0.3 + 0.7 * if facing > 0.0 { facing / length } else { 0.0 }
    }

    fn cast(&self, origin: [f64; 3], direction: [f64; 3], skip: bool) -> f32 {
        let (mut light, mut open, last) = (0.0, 1.0, self.side as f64 - 1.001);
        let (mut enter, mut leave) = (0.0, 1e30);
        for k in (0..3).filter(|&k| direction[k] != 0.0) {
            let a = (0.0 - origin[k]) / direction[k];
            let b = (last - origin[k]) / direction[k];
            let (low, high) = if a < b { (a, b) } else { (b, a) };
            enter = if low > enter { low } else { enter };
            leave = if high < leave { high } else { leave };
        }
        let mut step = enter as i32 + 1;
        while f64::from(step) < leave && open > 0.02 {
            let p = [0, 1, 2].map(|k| origin[k] + f64::from(step) * direction[k]);
            let c = p.map(|p| if p < 0.0 { 0 } else { (p as usize).min(self.side - 2) });
            let empty = |&level: &usize| !self.occupied[level][cube(self.levels, level, c)];
            let largest = (0..=self.levels).rev().find(empty).filter(|_| skip);
            if let Some(level) = largest {
                step = behind(level, c, origin, direction, step);
                continue;
            }
            let alpha = self.opacity[usize::from(self.sample(p, c) as u8)];
            if alpha > 0.0 {
                light += open * alpha * self.shade(c, direction);
                open *= 1.0 - alpha;
            }
            step += 1;
        }
        light
    }
}

/// The first step at or behind the cube's far side, never one inside the next cube too far.
fn behind(level: usize, c: [usize; 3], origin: [f64; 3], direction: [f64; 3], step: i32) -> i32 {
    let mut nearest = 1e30;
    for k in (0..3).filter(|&k| direction[k] != 0.0) {
        let wall = (c[k] >> level << level) + if direction[k] > 0.0 { 1 << level } else { 0 };
        let t = (wall as f64 - origin[k]) / direction[k];
        nearest = if t < nearest { t } else { nearest };
    }
    let next = (nearest - 1e-9).ceil() as i32;
    next.max(step + 1)
}

fn main() {
    let scale = start();
    let volume = Volume::new(if scale < 0.1 { 5 } else { 7 });
    let (side, pixels) = (volume.side as f64, at_least(8, 600.0 * scale.sqrt()));
    let (mut sum, mut total) = (0, 0.0);
    for frame in 0..FRAMES {
        // A turn about the vertical axis, with tangents of half the angle for sine and cosine.
        let t = -0.8 + 0.5 * frame as f64;
        let (cosine, sine) = ((1.0 - t * t) / (1.0 + t * t), 2.0 * t / (1.0 + t * t));
        let eye = [(0.5 - 1.6 * sine) * side, 0.5 * side, (0.5 - 1.6 * cosine) * side];
        for py in 0..pixels {
            for px in 0..pixels {
                let [u, v] = [px, py].map(|p| (p as f64 + 0.5) / pixels as f64 - 0.5);
                let mut d = [sine + 0.8 * u * cosine, 0.8 * v, cosine - 0.8 * u * sine];
                let length = (d[0] * d[0] + d[1] * d[1] + d[2] * d[2]).sqrt() / 0.7;
                d = d.map(|d| d / length);
                let light = volume.cast(eye, d, true);
                if (py * pixels + px) % 101 == 0 && light != volume.cast(eye, d, false) {
                    fail!("pixel {px}, {py} of frame {frame} differs without the octree");
                }
                total += f64::from(light);
                sum = mix_double(sum, f64::from(light));
            }
        }
    }
    if !(total > 0.01 * (FRAMES * pixels * pixels) as f64) {
        fail!("the pictures are black");
    }
    finish("volrend", sum);
}
