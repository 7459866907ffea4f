//! Recursive ray tracing of shiny balls over a floor, found through a hierarchy of bounding boxes.
mod common;
use common::{Rng, at_least, fail, finish, mix_double, start};
use std::ops::{Add, Mul, Sub};

const BALLS: usize = 3000;
const LEAF: usize = 2;
const DEPTH: usize = 4;
const SUN: Vector = Vector([0.48, 0.8, -0.36]);

#[derive(Clone, Copy, PartialEq)]
struct Vector([f64; 3]);

impl Add for Vector {
    type Output = Vector;

    fn add(self, b: Vector) -> Vector {
        Vector([self.0[0] + b.0[0], self.0[1] + b.0[1], self.0[2] + b.0[2]])
    }
}

impl Sub for Vector {
    type Output = Vector;

    fn sub(self, b: Vector) -> Vector {
        Vector([self.0[0] - b.0[0], self.0[1] - b.0[1], self.0[2] - b.0[2]])
    }
}

impl Mul<Vector> for f64 {
    type Output = Vector;

    fn mul(self, a: Vector) -> Vector {
        Vector([self * a.0[0], self * a.0[1], self * a.0[2]])
    }
}

fn dot(a: Vector, b: Vector) -> f64 {
    a.0[0] * b.0[0] + a.0[1] * b.0[1] + a.0[2] * b.0[2]
}

fn unit(a: Vector) -> Vector {
    1.0 / dot(a, a).sqrt() * a
}

struct Ball {
    center: Vector,
    color: Vector,
    radius: f64,
    mirror: f64,
}

struct Node {
    low: [f64; 3],
    high: [f64; 3],
    holds: Holds,
}

/// Balls by their numbers.
enum Holds {
    Balls(std::ops::Range<usize>),
    Nodes(Box<[Node; 2]>),
}

#[derive(Clone, Copy, PartialEq)]
struct Hit {
    t: f64,
    ball: Option<usize>,
}

/// A ray with the inverse of its direction.
struct Ray {
    origin: Vector,
    direction: Vector,
    inverse: [f64; 3],
}

impl Ray {
    fn new(origin: Vector, direction: Vector) -> Ray {
        Ray { origin, direction, inverse: direction.0.map(|d| 1.0 / d) }
    }
}

impl Node {
    /// Of balls of which the first has this number.
    fn new(balls: &mut [Ball], first: usize) -> Node {
        let (mut low, mut high, mut axis) = ([1e30; 3], [-1e30; 3], 0);
        for k in 0..3 {
            for ball in balls.iter() {
                low[k] = f64::min(low[k], ball.center.0[k] - ball.radius);
                high[k] = f64::max(high[k], ball.center.0[k] + ball.radius);
            }
            if high[k] - low[k] > high[axis] - low[axis] {
                axis = k;
            }
        }
        let count = balls.len();
        if count <= LEAF {
            return Node { low, high, holds: Holds::Balls(first..first + count) };
        }
        balls.sort_by(|a, b| a.center.0[axis].total_cmp(&b.center.0[axis]));
        let (left, right) = balls.split_at_mut(count / 2);
        let nodes = [Node::new(left, first), Node::new(right, first + count / 2)];
        Node { low, high, holds: Holds::Nodes(Box::new(nodes)) }
    }

    /// Where the ray enters the box, or 1e30.
    fn enter(&self, ray: &Ray) -> f64 {
        let (mut from, mut to) = (0.0, 1e30);
        for k in 0..3 {
            let a = (self.low[k] - ray.origin.0[k]) * ray.inverse[k];
            let b = (self.high[k] - ray.origin.0[k]) * ray.inverse[k];
            let (low, high) = if a < b { (a, b) } else { (b, a) };
            from = if low > from { low } else { from };
            to = if high < to { high } else { to };
        }
        if from <= to { from } else { 1e30 }
    }
}

struct Scene {
    balls: Vec<Ball>,
    root: Node,
}

const NOTHING: Hit = Hit { t: 1e29, ball: None };

impl Scene {
    fn hit_ball(&self, number: usize, ray: &Ray, best: &mut Hit) {
        let ball = &self.balls[number];
        let m = ray.origin - ball.center;
        let b = dot(m, ray.direction);
        let disc = b * b - dot(m, m) + ball.radius * ball.radius;
        if disc <= 0.0 {
            return;
        }
        let root = disc.sqrt();
        let t = if -b - root > 1e-6 { -b - root } else { -b + root };
        // Of two balls at the same distance the first, whatever the order.
        let before = t == best.t && best.ball.is_some_and(|other| number < other);
        if t > 1e-6 && (t < best.t || before) {
            *best = Hit { t, ball: Some(number) };
        }
    }

    fn find(&self, node: &Node, ray: &Ray, best: &mut Hit) {
        let nodes = match &node.holds {
            Holds::Balls(balls) => {
                balls.clone().for_each(|ball| self.hit_ball(ball, ray, best));
                return;
            }
            Holds::Nodes(nodes) => nodes,
        };
        let (mut first, mut second) = (&nodes[0], &nodes[1]);
        let (mut near, mut far) = (first.enter(ray), second.enter(ray));
        if far < near {
            (first, second, near, far) = (second, first, far, near);
        }
        if near < 1e30 && near <= best.t + 1e-9 {
            self.find(first, ray, best);
        }
        if far < 1e30 && far <= best.t + 1e-9 {
            self.find(second, ray, best);
        }
    }

    fn nearest(&self, origin: Vector, direction: Vector) -> Hit {
        let mut best = NOTHING;
        self.find(&self.root, &Ray::new(origin, direction), &mut best);
        best
    }

    fn trace(&self, origin: Vector, d: Vector, depth: usize) -> Vector {
        let hit = self.nearest(origin, d);
        let Vector([_, up, _]) = d;
        let (point, normal, color, mirror) = if let Some(ball) = hit.ball {
            let (ball, point) = (&self.balls[ball], origin + hit.t * d);
            (point, 1.0 / ball.radius * (point - ball.center), ball.color, ball.mirror)
        } else if up < -1e-3 {
            // The floor, a chessboard.
            let point = origin + -origin.0[1] / up * d;
            let dark = (point.0[0].floor() + point.0[2].floor()) % 2.0 != 0.0;
            let color = Vector(if dark { [0.2, 0.2, 0.25] } else { [0.9, 0.9, 0.8] });
            (point, Vector([0.0, 1.0, 0.0]), color, 0.2)
        } else {
            return Vector([0.5 - 0.2 * up, 0.6, 0.8 + 0.2 * up]);
        };
        let mut facing = dot(normal, SUN);
        let point = point + 1e-6 * normal;
        if facing < 0.0 || self.nearest(point, SUN).ball.is_some() {
            facing = 0.0;
        }
        let mut result = (0.2 + 0.8 * facing) * (1.0 - mirror) * color;
        if depth < DEPTH {
            let reflected = unit(d - 2.0 * dot(d, normal) * normal);
            result = result + mirror * self.trace(point, reflected, depth + 1);
        }
        result
    }
}

fn main() {
    let pixels = at_least(16, 1050.0 * start().sqrt());
    let mut rng = Rng(5);
    let mut random = |_| {
        let (radius, mirror) = (rng.between(0.1, 0.5), rng.between(0.1, 0.7));
        let x = rng.between(-20.0, 20.0);
        let y = radius + rng.between(0.0, 4.0);
        let center = Vector([x, y, rng.between(0.0, 40.0)]);
        let color = Vector(std::array::from_fn(|_| rng.between(0.2, 1.0)));
        Ball { center, color, radius, mirror }
    };
    let mut balls: Vec<Ball> = (0..BALLS).map(&mut random).collect();
    let root = Node::new(&mut balls, 0);
    let scene = Scene { balls, root };
    let eye = Vector([0.3, 5.0, -12.0]);
    let (mut total, mut sum, size) = (Vector([0.0; 3]), 0, pixels as f64);
    for y in 0..pixels {
        for x in 0..pixels {
            let (right, down) = ((x as f64 + 0.51) / size, (y as f64 + 0.51) / size);
            let d = unit(Vector([right - 0.5, 0.3 - down, 0.9]));
            if (y * pixels + x) % 499 == 0 {
                let (ray, mut slow) = (Ray::new(eye, d), NOTHING);
                (0..BALLS).for_each(|ball| scene.hit_ball(ball, &ray, &mut slow));
                if scene.nearest(eye, d) != slow {
                    fail!("pixel {x}, {y}: another ball than without the hierarchy");
                }
            }
            let color = scene.trace(eye, d, 0);
            total = total + color;
            sum = color.0.into_iter().fold(sum, mix_double);
        }
    }
    let mean = total.0.iter().sum::<f64>() / (3.0 * size * size);
    if !(mean > 0.05 && mean < 1.0) {
        fail!("the picture's brightness is {mean}");
    }
    finish("raytrace", sum);
}
