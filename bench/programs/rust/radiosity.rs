//! Light in a room with boxes by hierarchical radiosity: patches refined recursively against each
//! other, then light gathered over their links and carried up and down the hierarchy. One scene for
//! each position of the lamp.
mod common;
use common::{Rng, at_least, fail, finish, mix_double, start};
use std::f64::consts::PI;
use std::ops::{Add, Mul, Sub};

const BOXES: usize = 4;
const ROOTS: usize = 7 + 5 * BOXES;
const MOST_PATCHES: usize = 1 << 16;
const MOST_LINKS: usize = 1 << 21;
const ROUNDS: usize = 8;

/// The largest form factor that is not refined.
const FINEST: f64 = 0.04;
/// Area, of the room's side squared.
const SMALLEST: f64 = 0.005;

#[derive(Clone, Copy, Default)]
struct Vector {
    x: f64,
    y: f64,
    z: f64,
}

fn vector(x: f64, y: f64, z: f64) -> Vector {
    Vector { x, y, z }
}

impl Add for Vector {
    type Output = Vector;

    fn add(self, b: Vector) -> Vector {
        vector(self.x + b.x, self.y + b.y, self.z + b.z)
    }
}

impl Sub for Vector {
    type Output = Vector;

    fn sub(self, b: Vector) -> Vector {
        vector(self.x - b.x, self.y - b.y, self.z - b.z)
    }
}

impl Mul<Vector> for f64 {
    type Output = Vector;

    fn mul(self, a: Vector) -> Vector {
        vector(self * a.x, self * a.y, self * a.z)
    }
}

fn dot(a: Vector, b: Vector) -> f64 {
    a.x * b.x + a.y * b.y + a.z * b.z
}

fn cross(a: Vector, b: Vector) -> Vector {
    vector(a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x)
}

/// Patches and links are known by their numbers.
struct Link {
    from: u32,
    factor: f64,
    next: Option<u32>,
}

struct Patch {
    corner: Vector,
    u: Vector,
    v: Vector,
    normal: Vector,
    center: Vector,
    area: f64,
    emitted: f64,
    /// The share.
    reflected: f64,
    light: f64,
    gathered: f64,
    links: Option<u32>,
    /// The first of four.
    child: Option<usize>,
}

struct Cuboid {
    low: [f64; 3],
    high: [f64; 3],
}

struct Room {
    boxes: [Cuboid; BOXES],
    patches: Vec<Patch>,
    links: Vec<Link>,
}

impl Patch {
    fn new(corner: Vector, u: Vector, v: Vector, emitted: f64, reflected: f64) -> Patch {
        let normal = cross(u, v);
        let area = dot(normal, normal).sqrt();
        Patch {
            corner,
            u,
            v,
            normal: 1.0 / area * normal,
            center: corner + 0.5 * (u + v),
            area,
            emitted,
            reflected,
            light: emitted,
            gathered: 0.0,
            links: None,
            child: None,
        }
    }

    fn at(&self, u: f64, v: f64) -> Vector {
        self.corner + (u * self.u + v * self.v)
    }

    /// One of the four corners of the patch.
    fn corner(&self, number: usize) -> Vector {
        self.at((number & 1) as f64, (number >> 1) as f64)
    }

    /// Is all of it behind the other one's plane?
    fn is_behind(&self, other: &Patch) -> bool {
        (0..4).all(|i| dot(self.corner(i) - other.corner, other.normal) <= 1e-9)
    }
}

/// The share of p's half sphere that q fills, as if q were a disc.
fn form_factor(p: &Patch, q: &Patch) -> f64 {
    let d = q.center - p.center;
    let (r2, cos_p, cos_q) = (dot(d, d), dot(d, p.normal), -dot(d, q.normal));
    if cos_p <= 0.0 || cos_q <= 0.0 {
        return 0.0;
    }
    cos_p * cos_q / r2 * q.area / (PI * r2 + q.area)
}

impl Cuboid {
    /// Does it leave the line from a to b open?
    fn lets_through(&self, a: Vector, b: Vector) -> bool {
        let (o, d) = ([a.x, a.y, a.z], [b.x - a.x, b.y - a.y, b.z - a.z]);
        let (mut from, mut to) = (1e-6, 1.0 - 1e-6);
        for k in 0..3 {
            if from >= to {
                break;
            }
            if d[k].abs() < 1e-12 {
                if o[k] <= self.low[k] || o[k] >= self.high[k] {
                    to = from;
                }
                continue;
            }
            let (s, t) = ((self.low[k] - o[k]) / d[k], (self.high[k] - o[k]) / d[k]);
            let (low, high) = if s < t { (s, t) } else { (t, s) };
            from = if low > from { low } else { from };
            to = if high < to { high } else { to };
        }
        to - from <= 1e-6
    }
}

impl Room {
    fn add(&mut self, patch: Patch) {
        self.patches.push(patch);
    }

    fn visibility(&self, p: &Patch, q: &Patch) -> f64 {
        const AT: [(f64, f64); 4] = [(0.25, 0.3), (0.7, 0.2), (0.3, 0.75), (0.8, 0.7)];
        let mut seen = 0;
        for i in 0..AT.len() {
            let ((u, v), (s, t)) = (AT[i], AT[(i + 1) % AT.len()]);
            let (a, b) = (p.at(u, v), q.at(s, t));
            seen += u32::from(self.boxes.iter().all(|cuboid| cuboid.lets_through(a, b)));
        }
        0.25 * f64::from(seen)
    }

    /// The four parts of a patch.
    fn split(&mut self, number: usize) -> std::ops::Range<usize> {
        let count = self.patches.len();
        let p = &mut self.patches[number];
        let first = *p.child.get_or_insert(count);
        if first == count {
            if count + 4 > MOST_PATCHES {
                fail!("more than {MOST_PATCHES} patches");
            }
            let (u, v, emitted, reflected) = (0.5 * p.u, 0.5 * p.v, p.emitted, p.reflected);
            let corner = p.corner;
            for q in 0..4 {
                let corner = corner + ((q & 1) as f64 * u + (q >> 1) as f64 * v);
                self.add(Patch::new(corner, u, v, emitted, reflected));
            }
        }
        first..first + 4
    }

    /// Links p to the light of q, or their parts.
    fn refine(&mut self, p: usize, q: usize) {
        let (a, b) = (&self.patches[p], &self.patches[q]);
        if b.is_behind(a) || a.is_behind(b) {
            return;
        }
        let (mut factor, back, area) = (form_factor(a, b), form_factor(b, a), a.area + b.area);
        if (factor < FINEST && back < FINEST && area < 0.5) || area < SMALLEST {
            factor *= self.visibility(a, b);
            if factor == 0.0 {
                return;
            }
            if self.links.len() == MOST_LINKS {
                fail!("more than {MOST_LINKS} links");
            }
            let next = self.patches[p].links.replace(self.links.len() as u32);
            self.links.push(Link { from: q as u32, factor, next });
        } else if a.area > b.area {
            self.split(p).for_each(|child| self.refine(child, q));
        } else {
            self.split(q).for_each(|child| self.refine(p, child));
        }
    }

    fn gather(&mut self, number: usize) {
        let (mut sum, mut next) = (0.0, self.patches[number].links);
        while let Some(link) = next {
            let link = &self.links[link as usize];
            sum += link.factor * self.patches[link.from as usize].light;
            next = link.next;
        }
        self.patches[number].gathered = sum;
        if let Some(first) = self.patches[number].child {
            (first..first + 4).for_each(|child| self.gather(child));
        }
    }

    /// Brings what the patches above gathered down to the leaves; returns the mean of the leaves'
    /// light.
    fn push_pull(&mut self, number: usize, from_above: f64, absorbed: &mut f64) -> f64 {
        let p = &self.patches[number];
        let arrived = from_above + p.gathered;
        let light = if let Some(first) = p.child {
            let mut sum = 0.0;
            for child in first..first + 4 {
                sum += self.push_pull(child, arrived, absorbed);
            }
            0.25 * sum
        } else {
            *absorbed += p.area * (1.0 - p.reflected) * arrived;
            p.emitted + p.reflected * arrived
        };
        self.patches[number].light = light;
        light
    }

    fn build(&mut self, lamp_x: f64, lamp_z: f64) {
        self.patches.clear();
        self.links.clear();
        let along = |x, y, z| [vector(x, 0.0, 0.0), vector(0.0, y, 0.0), vector(0.0, 0.0, z)];
        let ([x, y, z], origin) = (along(1.0, 1.0, 1.0), vector(0.0, 0.0, 0.0));
        // The floor first.
        self.add(Patch::new(origin, z, x, 0.0, 0.4));
        self.add(Patch::new(y, x, z, 0.0, 0.7));
        self.add(Patch::new(origin, x, y, 0.0, 0.6));
        self.add(Patch::new(z, y, x, 0.0, 0.6));
        self.add(Patch::new(origin, y, z, 0.0, 0.5));
        self.add(Patch::new(x, z, y, 0.0, 0.5));
        let lamp = vector(lamp_x, 0.999, lamp_z);
        self.add(Patch::new(lamp, 0.2 * x, 0.2 * z, 20.0, 0.0));
        for i in 0..BOXES {
            let Cuboid { low: l, high: h } = self.boxes[i];
            let [x, y, z] = along(h[0] - l[0], h[1] - l[1], h[2] - l[2]);
            // The top first.
            self.add(Patch::new(vector(l[0], h[1], l[2]), z, x, 0.0, 0.3));
            self.add(Patch::new(vector(l[0], l[1], l[2]), y, x, 0.0, 0.3));
            self.add(Patch::new(vector(l[0], l[1], h[2]), x, y, 0.0, 0.3));
            self.add(Patch::new(vector(l[0], l[1], l[2]), z, y, 0.0, 0.3));
            self.add(Patch::new(vector(h[0], l[1], l[2]), y, z, 0.0, 0.3));
        }
    }
}

fn main() {
    let scenes = at_least(1, 260.0 * start());
    let boxes = std::array::from_fn(|i| {
        let x = 0.1 + 0.3 * (i % 3) as f64;
        let z = if i < 3 { 0.15 } else { 0.6 };
        let height = 0.15 + 0.15 * i as f64;
        Cuboid { low: [x, 0.0, z], high: [x + 0.17, height, z + 0.22] }
    });
    let (patches, links) = (Vec::with_capacity(MOST_PATCHES), Vec::with_capacity(MOST_LINKS));
    let mut room = Room { boxes, patches, links };
    let (mut rng, mut sum) = (Rng(11), 0);
    for scene in 0..scenes {
        let (lamp_x, lamp_z) = (rng.between(0.0, 0.8), rng.between(0.0, 0.8));
        room.build(lamp_x, lamp_z);
        for p in 0..ROOTS {
            for q in (0..ROOTS).filter(|&q| q != p) {
                room.refine(p, q);
            }
        }
        let (mut absorbed, emitted) = (0.0, 20.0 * 0.04);
        for _ in 0..ROUNDS {
            absorbed = 0.0;
            (0..ROOTS).for_each(|p| room.gather(p));
            for p in 0..ROOTS {
                room.push_pull(p, 0.0, &mut absorbed);
            }
        }
        // What leaves the lamp must arrive somewhere, as well as discs stand for rectangles.
        if !((absorbed - emitted).abs() < 0.2 * emitted) {
            fail!("scene {scene}: {emitted} of light sent, {absorbed} absorbed");
        }
        sum = room.patches[..ROOTS].iter().fold(sum, |sum, patch| mix_double(sum, patch.light));
    }
    finish("radiosity", sum);
}
