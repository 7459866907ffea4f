//! After SPLASH-2X's Raytrace: threads take tiles of a picture from a queue, and give each ray a
//! number from a counter behind one lock, the contended one. (FlexGuard 5.3, Figure 3m-p.)

use super::{Locked, Ran, Size};
use crate::locks::{BenchLock, Use};
use crate::work::random::Random;

/// Pixels of a side, at full size.
const SIDE: u64 = 1024;
/// Pixels of a tile.
const TILE: u64 = 64;
const SPHERES: usize = 24;
/// Reflections of a ray.
const DEPTH: u32 = 3;

type Vector = [f32; 3];

/// The program.
pub struct Raytrace {
    /// How it runs.
    pub size: Size,
}

struct Sphere {
    centre: Vector,
    radius: f32,
    shine: f32,
}

fn dot(a: Vector, b: Vector) -> f32 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

/// `a + t b`.
fn along(a: Vector, t: f32, b: Vector) -> Vector {
    [a[0] + t * b[0], a[1] + t * b[1], a[2] + t * b[2]]
}

fn unit(a: Vector) -> Vector {
    along([0.0; 3], 1.0 / dot(a, a).sqrt(), a)
}

fn scene() -> Vec<Sphere> {
    let mut random = Random::new(5);
    let mut between = |low: f32, high: f32| low + (high - low) * random.unit() as f32;
    let sphere = |_| Sphere {
        centre: [between(-4.0, 4.0), between(-4.0, 4.0), between(4.0, 12.0)],
        radius: between(0.4, 1.4),
        shine: between(0.1, 0.8),
    };
    (0..SPHERES).map(sphere).collect()
}

/// Where a ray first meets a sphere.
fn hit(scene: &[Sphere], from: Vector, to: Vector) -> Option<(f32, &Sphere)> {
    let meet = |sphere: &Sphere| {
        let offset = along(sphere.centre, -1.0, from);
        let middle = dot(offset, to);
        let inside = middle * middle - dot(offset, offset) + sphere.radius * sphere.radius;
        let t = middle - inside.max(0.0).sqrt();
        (inside > 0.0 && t > 1e-3).then_some(t)
    };
    let met = scene.iter().filter_map(|sphere| Some((meet(sphere)?, sphere)));
    met.min_by(|a, b| a.0.total_cmp(&b.0))
}

/// The brightness of a ray; `number` is called for each ray and reflection.
fn trace(scene: &[Sphere], from: Vector, to: Vector, depth: u32, number: &mut impl FnMut()) -> f32 {
    number();
    let Some((t, sphere)) = hit(scene, from, to) else { return 0.2 + 0.2 * to[1].abs() };
    let at = along(from, t, to);
    let normal = unit(along(at, -1.0, sphere.centre));
    let light = unit([0.5, 1.0, -0.7]);
    let shadow = hit(scene, at, light).is_some();
    let direct = if shadow { 0.0 } else { dot(normal, light).max(0.0) };
    if depth == 0 {
        return direct;
    }
    let mirrored = along(to, -2.0 * dot(to, normal), normal);
    let reflected = trace(scene, at, mirrored, depth - 1, number);
    direct * (1.0 - sphere.shine) + reflected * sphere.shine
}

/// A sum over the tile's pixels, whatever their order.
fn tile(scene: &[Sphere], side: u64, first: u64, number: &mut impl FnMut()) -> u64 {
    let pixel = |at: u64, number: &mut _| {
        let part = |value: u64| 2.0 * value as f32 / side as f32 - 1.0;
        let to = unit([part(at % side), part(at / side), 1.0]);
        let bright = (trace(scene, [0.0; 3], to, DEPTH, number) * 255.0) as u64;
        bright.wrapping_mul(at.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    };
    (first..(first + TILE).min(side * side)).fold(0, |sum, at| sum.wrapping_add(pixel(at, number)))
}

impl Use for Raytrace {
    type Out = Ran;

    fn with<L: BenchLock>(self) -> Ran {
        let side = (self.size.of(SIDE * SIDE) as f64).sqrt().max(8.0) as u64;
        let scene = scene();
        let (next, rays) = (Locked::<L, u64>::new(0), Locked::<L, u64>::new(0));
        let (sums, took) = self.size.run(|_| {
            let (mut node, mut sum) = (L::Node::default(), 0u64);
            let take = |next: &mut u64| {
                *next += TILE;
                *next - TILE
            };
            loop {
                let first = next.with(&mut node, take);
                if first >= side * side {
                    return sum;
                }
                let mut number = || rays.with(&mut node, |rays| *rays += 1);
                sum = sum.wrapping_add(tile(&scene, side, first, &mut number));
            }
        });
        let sum = sums.into_iter().fold(0u64, u64::wrapping_add);
        let rays = rays.into_inner();
        let mut counted = 0;
        let wanted = (0..side * side).step_by(TILE as usize).fold(0u64, |sum, first| {
            sum.wrapping_add(tile(&scene, side, first, &mut || counted += 1))
        });
        let wrong = ((sum, rays) != (wanted, counted))
            .then(|| format!("picture {sum:x} of {rays} rays, not {wanted:x} of {counted}"));
        Ran { ops: rays, took, wrong }
    }
}
