//! Charges that drift in the plane, by an adaptive fast multipole method: expansions over a
//! quadtree, whose pairs of boxes are walked recursively.
mod common;
use common::{Rng, at_least, fail, finish, mix_double, start};
use std::ops::{Add, Mul, Range, Sub};

const TERMS: usize = 10;
const LEAF: usize = 6;
const CHECKED: usize = 16;
const SEPARATION: f64 = 0.55;

#[derive(Clone, Copy, Default)]
struct Complex {
    re: f64,
    im: f64,
}

impl Add for Complex {
    type Output = Complex;

    fn add(self, other: Complex) -> Complex {
        Complex { re: self.re + other.re, im: self.im + other.im }
    }
}

impl Sub for Complex {
    type Output = Complex;

    fn sub(self, other: Complex) -> Complex {
        Complex { re: self.re - other.re, im: self.im - other.im }
    }
}

impl Mul for Complex {
    type Output = Complex;

    fn mul(self, other: Complex) -> Complex {
        Complex {
            re: self.re * other.re - self.im * other.im,
            im: self.re * other.im + self.im * other.re,
        }
    }
}

impl Mul<Complex> for f64 {
    type Output = Complex;

    fn mul(self, other: Complex) -> Complex {
        Complex { re: self * other.re, im: self * other.im }
    }
}

impl Complex {
    const ZERO: Complex = Complex { re: 0.0, im: 0.0 };
    const ONE: Complex = Complex { re: 1.0, im: 0.0 };

    fn square(self) -> f64 {
        self.re * self.re + self.im * self.im
    }

    fn inverse(self) -> Complex {
        let n = 1.0 / self.square();
        Complex { re: self.re * n, im: -self.im * n }
    }
}

#[derive(Clone, Copy, Default)]
struct Point {
    z: Complex,
    field: Complex,
    charge: f64,
}

struct Node {
    center: Complex,
    /// Half of the side.
    half: f64,
    points: Range<usize>,
    /// All none in a leaf.
    child: [Option<usize>; 4],
    leaf: bool,
    charge: f64,
}

/// The boxes' expansions are beside them: of the points inside, seen from outside, where `far[k]`
/// belongs to the power -(k + 1); and of the points outside, seen from inside.
struct Tree<'a> {
    points: &'a mut [Point],
    boxes: Vec<Node>,
    far: Vec<[Complex; TERMS]>,
    near: Vec<[Complex; TERMS]>,
    binomial: &'a [[f64; 2 * TERMS]; 2 * TERMS],
}

fn pull(at: &Point, by: &Point) -> Complex {
    by.charge * (at.z - by.z).inverse()
}

impl Tree<'_> {
    /// Returns the number of the box around these points.
    fn build(&mut self, points: Range<usize>, center: Complex, half: f64) -> usize {
        let (number, leaf) = (self.boxes.len(), points.len() <= LEAF);
        let range = points.clone();
        self.boxes.push(Node { center, half, points, child: [None; 4], leaf, charge: 0.0 });
        self.far.push([Complex::ZERO; TERMS]);
        self.near.push([Complex::ZERO; TERMS]);
        if leaf {
            return number;
        }
        let mut start = range.start;
        for q in 0..4 {
            // Brings the points of the quarter to the front.
            let mut end = start;
            for i in start..range.end {
                let z = self.points[i].z;
                if usize::from(z.re >= center.re) + 2 * usize::from(z.im >= center.im) == q {
                    self.points.swap(i, end);
                    end += 1;
                }
            }
            let side = |bit: usize| if q & bit != 0 { 0.5 } else { -0.5 };
            let c = Complex { re: center.re + side(1) * half, im: center.im + side(2) * half };
            if end > start {
                let child = self.build(start..end, c, 0.5 * half);
                self.boxes[number].child[q] = Some(child);
            }
            start = end;
        }
        number
    }

    fn children(&self, number: usize) -> impl Iterator<Item = usize> + use<> {
        self.boxes[number].child.into_iter().flatten()
    }

    /// Fills the expansions of far points, leaves first.
    fn upward(&mut self, number: usize) {
        let center = self.boxes[number].center;
        let (mut far, mut charge) = ([Complex::ZERO; TERMS], 0.0);
        if self.boxes[number].leaf {
            for point in &self.points[self.boxes[number].points.clone()] {
                let (d, mut power) = (point.z - center, Complex { re: point.charge, im: 0.0 });
                charge += point.charge;
                for (k, far) in far.iter_mut().enumerate() {
                    power = power * d;
                    *far = *far + -1.0 / (k + 1) as f64 * power;
                }
            }
        }
        for child in self.children(number) {
            self.upward(child);
            let (of_child, from) = (self.boxes[child].charge, &self.far[child]);
            charge += of_child;
            let (d, mut power) = (self.boxes[child].center - center, [Complex::ONE; TERMS + 1]);
            for k in 1..=TERMS {
                power[k] = power[k - 1] * d;
            }
            for l in 1..=TERMS {
                let mut sum = -of_child / l as f64 * power[l];
                for k in 1..=l {
                    sum = sum + self.binomial[l - 1][k - 1] * (from[k - 1] * power[l - k]);
                }
                far[l - 1] = far[l - 1] + sum;
            }
        }
        self.far[number] = far;
        self.boxes[number].charge = charge;
    }

    fn far_to_near(&mut self, to: usize, from: usize) {
        let r = (self.boxes[from].center - self.boxes[to].center).inverse();
        let (mut power, mut scaled) = (r, [Complex::ZERO; TERMS]);
        for (k, (scaled, far)) in scaled.iter_mut().zip(&self.far[from]).enumerate() {
            *scaled = if k % 2 == 1 { 1.0 } else { -1.0 } * (*far * power);
            power = power * r;
        }
        power = Complex::ONE;
        for (l, near) in self.near[to].iter_mut().enumerate().skip(1) {
            let mut sum = Complex { re: -self.boxes[from].charge / l as f64, im: 0.0 };
            for (k, &scaled) in scaled.iter().enumerate() {
                sum = sum + self.binomial[l + k][k] * scaled;
            }
            power = power * r;
            *near = *near + sum * power;
        }
    }

    fn point_to_point(&mut self, to: usize, from: usize) {
        for i in self.boxes[to].points.clone() {
            let (p, mut sum) = (self.points[i], Complex::ZERO);
            for j in self.boxes[from].points.clone() {
                if i != j {
                    sum = sum + pull(&p, &self.points[j]);
                }
            }
            self.points[i].field = p.field + sum;
        }
    }

    fn interact(&mut self, to: usize, from: usize) {
        let (a, b) = (&self.boxes[to], &self.boxes[from]);
        let reach = 1.42 * (a.half + b.half) / SEPARATION;
        if (a.center - b.center).square() > reach * reach {
            self.far_to_near(to, from);
        } else if a.leaf && b.leaf {
            self.point_to_point(to, from);
        } else if b.leaf || (!a.leaf && a.half >= b.half) {
            self.children(to).for_each(|child| self.interact(child, from));
        } else {
            self.children(from).for_each(|child| self.interact(to, child));
        }
    }

    /// Moves the expansions of near points down to the leaves, and there to the points.
    fn downward(&mut self, number: usize) {
        let Node { center, leaf, ref points, .. } = self.boxes[number];
        let near = self.near[number];
        if leaf {
            for point in &mut self.points[points.clone()] {
                let (d, mut sum) = (point.z - center, Complex::ZERO);
                for (l, &near) in near.iter().enumerate().skip(1).rev() {
                    sum = sum * d + l as f64 * near;
                }
                point.field = point.field + sum;
            }
        }
        for child in self.children(number) {
            let (mut moved, d) = (near, self.boxes[child].center - center);
            for j in 0..TERMS {
                for k in (j..TERMS - 1).rev() {
                    moved[k] = moved[k] + d * moved[k + 1];
                }
            }
            for (near, moved) in self.near[child].iter_mut().zip(moved) {
                *near = *near + moved;
            }
            self.downward(child);
        }
    }
}

fn inside(x: f64) -> f64 {
    x.clamp(0.0, 1.0)
}

/// Compares the fields of some points with their sums over all others.
fn check(points: &[Point]) {
    let (mut error, mut size) = (0.0, 0.0);
    for c in 0..CHECKED {
        let place = c * (points.len() / CHECKED);
        let others = points.iter().enumerate().filter(|(j, _)| *j != place);
        let sum = others.fold(Complex::ZERO, |sum, (_, other)| sum + pull(&points[place], other));
        error += (sum - points[place].field).square();
        size += sum.square();
    }
    if !(error < 1e-8 * size) {
        fail!("the field is off by {} of its size", (error / size).sqrt());
    }
}

fn main() {
    let scale = start();
    let count = at_least(500, 60000.0 * scale.sqrt());
    let steps = at_least(1, 9.0 * scale.sqrt());
    let mut binomial = [[0.0; 2 * TERMS]; 2 * TERMS];
    for n in 0..2 * TERMS {
        for k in 0..=n {
            let inner = k > 0 && k < n;
            binomial[n][k] = if inner { binomial[n - 1][k - 1] + binomial[n - 1][k] } else { 1.0 };
        }
    }
    let mut rng = Rng(4);
    // Half of them in clusters.
    let mut random = |i: usize| {
        let spread = if i % 2 == 1 { 1.0 } else { 0.02 };
        let (column, row) = ((i / 2 % 5) as f64, (i / 10 % 8) as f64);
        let cluster = Complex { re: 0.1 + 0.2 * column, im: 0.15 + 0.1 * row };
        let middle = if i % 2 == 1 { Complex { re: 0.5, im: 0.5 } } else { cluster };
        let re = middle.re + spread * rng.between(-0.5, 0.5);
        let im = middle.im + spread * rng.between(-0.5, 0.5);
        Point { z: Complex { re, im }, charge: rng.between(-1.0, 1.0), field: Complex::ZERO }
    };
    let mut points: Vec<Point> = (0..count).map(&mut random).collect();
    let mut sum = 0;
    for _ in 0..steps {
        let mut tree = Tree {
            points: &mut points,
            boxes: Vec::new(),
            far: Vec::new(),
            near: Vec::new(),
            binomial: &binomial,
        };
        let root = tree.build(0..count, Complex { re: 0.5, im: 0.5 }, 0.5);
        tree.upward(root);
        tree.interact(root, root);
        tree.downward(root);
        check(&points);
        for p in &mut points {
            sum = mix_double(mix_double(sum, p.field.re), p.field.im);
            p.z.re = inside(p.z.re + 1e-7 * p.field.re);
            p.z.im = inside(p.z.im + 1e-7 * p.field.im);
            p.field = Complex::ZERO;
        }
    }
    finish("fmm", sum);
}
