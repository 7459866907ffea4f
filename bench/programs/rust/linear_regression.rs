//! A straight line through points of two bytes, for each of many overlapping windows of them.
mod common;
use common::{Rng, at_least, fail, finish, mix_double, start};

const WINDOWS: usize = 96;

#[derive(Clone, Copy, Default)]
struct Point {
    x: u8,
    y: u8,
}

#[derive(Clone, Copy, Default, PartialEq)]
struct Sums {
    x: u64,
    y: u64,
    xx: u64,
    yy: u64,
    xy: u64,
}

fn sum_up(points: &[Point]) -> Sums {
    let mut s = Sums::default();
    for point in points {
        let (x, y) = (u32::from(point.x), u32::from(point.y));
        s.x += u64::from(x);
        s.y += u64::from(y);
        s.xx += u64::from(x * x);
        s.yy += u64::from(y * y);
        s.xy += u64::from(x * y);
    }
    s
}

fn main() {
    let stride = at_least(20, 160000.0 * start());
    let length = stride * WINDOWS;
    let mut points = vec![Point::default(); stride * (WINDOWS - 1) + length];
    let mut rng = Rng(15);
    for point in &mut points {
        let bits = rng.next();
        point.x = bits as u8;
        point.y = (u64::from(point.x / 2) + 40 + (bits >> 8 & 31) + (bits >> 16 & 31)) as u8;
    }
    let (mut slid, mut sum) = (Sums::default(), 0);
    for window in 0..WINDOWS {
        let first = window * stride;
        let s = sum_up(&points[first..first + length]);
        // The same from the window before, by what came and what went.
        if window == 0 {
            slid = s;
        } else {
            let gone = sum_up(&points[first - stride..first]);
            let new = sum_up(&points[first - stride + length..first + length]);
            slid = Sums {
                x: slid.x + new.x - gone.x,
                y: slid.y + new.y - gone.y,
                xx: slid.xx + new.xx - gone.xx,
                yy: slid.yy + new.yy - gone.yy,
                xy: slid.xy + new.xy - gone.xy,
            };
        }
        if s != slid {
            fail!("window {window}: the sums differ from the last window's, slid");
        }
        let n = length as f64;
        let (mean_x, mean_y) = (s.x as f64 / n, s.y as f64 / n);
        let slope = (s.xy as f64 / n - mean_x * mean_y) / (s.xx as f64 / n - mean_x * mean_x);
        let offset = mean_y - slope * mean_x;
        let slack = 20.0 / n.sqrt();
        if !((slope - 0.5).abs() < slack && (offset - 70.75).abs() < 100.0 * slack) {
            fail!("window {window}: y = {slope} x + {offset}");
        }
        sum = mix_double(mix_double(sum, slope), offset);
    }
    finish("linear_regression", sum);
}
