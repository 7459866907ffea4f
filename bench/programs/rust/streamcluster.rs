//! Clusters a stream of points by local search for k medians: chunk by chunk, then the chunks'
//! weighted centres.
mod common;
use common::{Rng, at_least, fail, finish, mix_double, start};

const DIMENSIONS: usize = 16;
const PLANTED: usize = 12;
const LEAST: usize = 8;
const MOST: usize = 16;
const CHUNK: usize = 1600;
const TRIES: usize = 120;
const SEARCHES: usize = 20;

type Place = [f64; DIMENSIONS];

#[derive(Clone, Copy)]
struct Point {
    at: Place,
    weight: f64,
    /// Of its weight, to its center.
    cost: f64,
    /// The number of a point.
    center: usize,
}

fn distance2(a: &Place, b: &Place) -> f64 {
    let mut sum = 0.0;
    for (x, y) in a.iter().zip(b) {
        sum += (x - y) * (x - y);
    }
    sum
}

impl Point {
    fn cost_at(&self, place: &Place) -> f64 {
        self.weight * distance2(&self.at, place)
    }
}

fn assign_all(points: &mut [Point], center: usize) -> f64 {
    let place = points[center].at;
    let mut total = 0.0;
    for point in points {
        point.center = center;
        point.cost = point.cost_at(&place);
        total += point.cost;
    }
    total
}

/// Opens each point with a chance that grows with its distance to the open ones, at a cost of
/// `open_cost` each.
fn open_some(points: &mut [Point], open_cost: f64, rng: &mut Rng) {
    assign_all(points, 0);
    for i in 1..points.len() {
        if rng.between(0.0, 1.0) >= points[i].cost / open_cost {
            continue;
        }
        let place = points[i].at;
        for point in points.iter_mut() {
            let cost = point.cost_at(&place);
            if cost < point.cost {
                point.cost = cost;
                point.center = i;
            }
        }
    }
}

/// Numbers of points, for one search.
struct Space {
    /// By center: what closing it saves in the points' cost.
    saved: Vec<f64>,
    cost_at_x: Vec<f64>,
}

/// Opens x if that pays: its own points get nearer, and centers close whose points all move to x.
/// Returns the gain.
fn try_open(points: &mut [Point], x: usize, open_cost: f64, space: &mut Space) -> f64 {
    let Space { saved, cost_at_x } = space;
    let (place, mut gain) = (points[x].at, -open_cost);
    saved.fill(0.0);
    for (point, cost_at_x) in points.iter().zip(cost_at_x.iter_mut()) {
        *cost_at_x = point.cost_at(&place);
        let less = point.cost - *cost_at_x;
        if less > 0.0 {
            gain += less;
        } else {
            saved[point.center] += less;
        }
    }
    for (i, (point, saved)) in points.iter().zip(saved.iter()).enumerate() {
        if point.center == i && saved + open_cost > 0.0 {
            gain += saved + open_cost;
        }
    }
    if gain <= 0.0 || points[x].center == x {
        return 0.0;
    }
    for (point, &cost_at_x) in points.iter_mut().zip(cost_at_x.iter()) {
        if cost_at_x < point.cost || saved[point.center] + open_cost > 0.0 {
            point.center = x;
            point.cost = cost_at_x;
        }
    }
    gain
}

fn centers_of(points: &[Point]) -> usize {
    points.iter().enumerate().filter(|(i, point)| point.center == *i).count()
}

/// What the local search makes smaller.
fn cost_of_all(points: &[Point], open_cost: f64) -> f64 {
    let opened = open_cost * centers_of(points) as f64;
    points.iter().fold(opened, |total, point| total + point.cost)
}

/// Opens and closes centers at this cost for each until that hardly pays any more.
fn search(points: &mut [Point], open_cost: f64, rng: &mut Rng, space: &mut Space) {
    open_some(points, open_cost, rng);
    let mut cost = cost_of_all(points, open_cost);
    loop {
        let mut gain = 0.0;
        for _ in 0..TRIES {
            let x = rng.below(points.len() as u32) as usize;
            gain += try_open(points, x, open_cost, space);
        }
        let now = cost_of_all(points, open_cost);
        if !((cost - gain - now).abs() < 1e-9 * cost) {
            fail!("the cost went from {cost} to {now}, a gain of {gain}");
        }
        cost = now;
        if gain <= 0.01 * cost {
            return;
        }
    }
}

/// Finds a cost for opening with which the number of centers is from LEAST to MOST, and keeps these
/// alone, with the weights of their points.
fn cluster(points: &mut Vec<Point>, rng: &mut Rng) {
    let n = points.len();
    let mut space = Space { saved: vec![0.0; n], cost_at_x: vec![0.0; n] };
    let (mut low, mut high) = (0.0, assign_all(points, 0));
    let searches = if n > LEAST { SEARCHES } else { 0 };
    for _ in 0..searches {
        let open_cost = 0.5 * (low + high);
        search(points, open_cost, rng, &mut space);
        match centers_of(points) {
            LEAST..=MOST => break,
            ..LEAST => high = open_cost,
            _ => low = open_cost,
        }
    }
    let weights = &mut space.saved;
    weights.fill(0.0);
    let mut weight = 0.0;
    for (i, point) in points.iter().enumerate() {
        if points[point.center].center != point.center {
            fail!("point {i} belongs to a closed center");
        }
        weights[point.center] += point.weight;
        weight += point.weight;
    }
    let mut number = 0;
    points.retain_mut(|point| {
        let (is_center, its) = (point.center == number, weights[number]);
        number += 1;
        if is_center {
            point.weight = its;
            weight -= its;
        }
        is_center
    });
    if weight.abs() > 1e-6 * n as f64 {
        fail!("the centers weigh {weight} less than their points");
    }
}

fn cost_of(stream: &[Point], centers: &[Place]) -> f64 {
    let nearest = |point: &Point| {
        let distances = centers.iter().map(|center| distance2(&point.at, center));
        distances.fold(f64::INFINITY, |best, d| if d < best { d } else { best })
    };
    stream.iter().fold(0.0, |total, point| total + nearest(point))
}

fn main() {
    let n = at_least(400, 74000.0 * start());
    let mut rng = Rng(23);
    let mut planted = [[0.0; DIMENSIONS]; PLANTED];
    planted.as_flattened_mut().fill_with(|| rng.between(0.0, 1.0));
    let mut random = |i: usize| {
        let at = planted[i % PLANTED].map(|at| at + rng.between(-0.2, 0.2));
        Point { at, weight: 1.0, cost: 0.0, center: 0 }
    };
    let stream: Vec<Point> = (0..n).map(&mut random).collect();
    let mut centers = Vec::new();
    for chunk in stream.chunks(CHUNK) {
        let mut chunk = chunk.to_vec();
        cluster(&mut chunk, &mut rng);
        centers.extend(chunk);
    }
    cluster(&mut centers, &mut rng);
    let centers: Vec<Place> = centers.iter().map(|center| center.at).collect();
    let (kept, cost, best) =
        (centers.len(), cost_of(&stream, &centers), cost_of(&stream, &planted));
    if !((LEAST..=MOST).contains(&kept) && cost < 4.0 * best) {
        fail!("{kept} centers at a cost of {cost}; {PLANTED} would cost {best}");
    }
    let values = centers.into_iter().flatten();
    finish("streamcluster", values.fold(mix_double(kept as u64, cost), mix_double));
}
