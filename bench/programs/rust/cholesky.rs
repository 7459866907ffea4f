//! Sparse Cholesky decompositions, row by row, of the equations of a grid ordered by nested
//! dissection.
mod common;
use common::{Rng, at_least, fail, finish, mix, mix_double, start};
use std::mem::take;
use std::ops::Range;

/// No row.
const NONE: usize = usize::MAX;

/// A sparse matrix by columns, the diagonal's element first in each.
struct Columns {
    start: Vec<usize>,
    row: Vec<u32>,
    value: Vec<f64>,
}

impl Columns {
    fn column(&self, k: usize) -> Range<usize> {
        self.start[k]..self.start[k + 1]
    }

    /// Rows and values at these places.
    fn at(&self, places: Range<usize>) -> impl Iterator<Item = (usize, f64)> {
        let rows = self.row[places.clone()].iter().map(|&row| row as usize);
        rows.zip(self.value[places].iter().copied())
    }
}

/// Lists the points of a rectangle in the order of elimination: two halves, then the line between
/// them.
fn dissect(points: &mut Vec<usize>, side: usize, x: Range<usize>, y: Range<usize>) {
    if x.is_empty() || y.is_empty() {
        return;
    }
    if x.len() >= y.len() {
        let middle = (x.start + x.end) / 2;
        dissect(points, side, x.start..middle, y.clone());
        dissect(points, side, middle + 1..x.end, y.clone());
        points.extend(y.map(|y| y * side + middle));
    } else {
        let middle = (y.start + y.end) / 2;
        dissect(points, side, x.clone(), y.start..middle);
        dissect(points, side, x.clone(), middle + 1..y.end);
        points.extend(x.map(|x| middle * side + x));
    }
}

/// The upper triangle of the grid's matrix.
fn build_matrix(side: usize) -> Columns {
    let n = side * side;
    let (mut points, mut rank_of) = (Vec::with_capacity(n), vec![0; n]);
    dissect(&mut points, side, 0..side, 0..side);
    if points.len() != n {
        fail!("the order misses points");
    }
    for (rank, &p) in points.iter().enumerate() {
        rank_of[p] = rank;
    }
    let mut rng = Rng(9);
    let mut a = Columns { start: vec![0], row: Vec::new(), value: Vec::new() };
    for (k, &p) in points.iter().enumerate() {
        let (x, y) = (p % side, p / side);
        a.row.push(k as u32);
        a.value.push(5.0);
        let near = [
            (x > 0).then(|| p - 1),
            (x + 1 < side).then(|| p + 1),
            (y > 0).then(|| p - side),
            (y + 1 < side).then(|| p + side),
        ];
        for other in near.into_iter().flatten().map(|q| rank_of[q]).filter(|&other| other < k) {
            a.row.push(other as u32);
            a.value.push(rng.between(-1.2, -0.8));
        }
        a.start.push(a.row.len());
    }
    a
}

/// The elimination tree: a column's parent is the first row below the diagonal of the factor.
fn build_tree(a: &Columns, n: usize) -> Vec<usize> {
    let (mut parent, mut ancestor) = (vec![NONE; n], vec![NONE; n]);
    for k in 0..n {
        for (row, _) in a.at(a.column(k)) {
            let mut i = row;
            while i < k {
                let next = std::mem::replace(&mut ancestor[i], k);
                if next == NONE {
                    parent[i] = k;
                }
                i = next;
            }
        }
    }
    parent
}

/// Finds the columns of the factor's rows.
struct Reach<'a> {
    a: &'a Columns,
    parent: &'a [usize],
    list: Vec<usize>,
    mark: Vec<usize>,
}

impl<'a> Reach<'a> {
    fn new(a: &'a Columns, parent: &'a [usize]) -> Self {
        let n = parent.len();
        Reach { a, parent, list: vec![0; n], mark: vec![0; n] }
    }

    /// Those of row `k`, each behind those it depends on.
    fn columns(&mut self, k: usize) -> &[usize] {
        let mut top = self.list.len();
        self.mark[k] = k + 1;
        for (row, _) in self.a.at(self.a.column(k)) {
            let (mut length, mut i) = (0, row);
            while self.mark[i] != k + 1 {
                self.list[length] = i;
                length += 1;
                self.mark[i] = k + 1;
                i = self.parent[i];
            }
            while length > 0 {
                (top, length) = (top - 1, length - 1);
                self.list[top] = self.list[length];
            }
        }
        &self.list[top..]
    }
}

/// Counts the factor's columns and makes room for them.
fn room(a: &Columns, parent: &[usize]) -> Columns {
    let n = parent.len();
    let mut reach = Reach::new(a, parent);
    let mut start = vec![0; n + 1];
    for k in 0..n {
        start[k + 1] += 1;
        for &column in reach.columns(k) {
            start[column + 1] += 1;
        }
    }
    for k in 0..n {
        start[k + 1] += start[k];
    }
    let size = start[n];
    Columns { start, row: vec![0; size], value: vec![0.0; size] }
}

fn decompose(a: &Columns, parent: &[usize], l: &mut Columns) {
    let n = parent.len();
    let mut reach = Reach::new(a, parent);
    let (mut end, mut x) = (l.start.clone(), vec![0.0; n]);
    for k in 0..n {
        for (row, value) in a.at(a.column(k)) {
            x[row] = value;
        }
        let mut diagonal = take(&mut x[k]);
        for &i in reach.columns(k) {
            let value = take(&mut x[i]) / l.value[l.start[i]];
            for (row, below) in l.at(l.start[i] + 1..end[i]) {
                x[row] -= below * value;
            }
            diagonal -= value * value;
            l.row[end[i]] = k as u32;
            l.value[end[i]] = value;
            end[i] += 1;
        }
        if !(diagonal > 0.0) {
            fail!("column {k} is not positive definite");
        }
        l.row[end[k]] = k as u32;
        l.value[end[k]] = diagonal.sqrt();
        end[k] += 1;
    }
}

/// Solves equations of which the solution is known. Returns a checksum of the solution.
fn solve(a: &Columns, l: &Columns, n: usize, rng: &mut Rng) -> u64 {
    let wanted: Vec<f64> = (0..n).map(|_| rng.between(-1.0, 1.0)).collect();
    let mut b = vec![0.0; n];
    for k in 0..n {
        for (row, value) in a.at(a.column(k)) {
            b[row] += value * wanted[k];
            if row != k {
                b[k] += value * wanted[row];
            }
        }
    }
    let below = |k: usize| l.start[k] + 1..l.start[k + 1];
    for k in 0..n {
        b[k] /= l.value[l.start[k]];
        for (row, value) in l.at(below(k)) {
            b[row] -= value * b[k];
        }
    }
    for k in (0..n).rev() {
        for (row, value) in l.at(below(k)) {
            b[k] -= value * b[row];
        }
        b[k] /= l.value[l.start[k]];
    }
    let mut sum = 0;
    for (k, (found, wanted)) in b.iter().zip(&wanted).enumerate() {
        if !((found - wanted).abs() < 1e-9) {
            fail!("x[{k}] is {found} instead of {wanted}");
        }
        sum = mix_double(sum, *found);
    }
    sum
}

fn main() {
    let scale = start();
    let side = at_least(10, 160.0 * scale.sqrt().cbrt());
    let rounds = at_least(1, 40.0 * scale.sqrt());
    let n = side * side;
    let mut a = build_matrix(side);
    let parent = build_tree(&a, n);
    let mut l = room(&a, &parent);
    let (mut rng, mut sum) = (Rng(10), 0);
    for round in 0..rounds {
        decompose(&a, &parent, &mut l);
        sum = mix(sum, solve(&a, &l, n, &mut rng));
        // Another matrix with the same pattern.
        for k in 0..n {
            a.value[a.start[k]] = 5.0 + 0.1 * (round + 1) as f64;
        }
    }
    finish("cholesky", sum);
}
