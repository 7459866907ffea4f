//! Curves and bars as SVG, for every page that a command writes.
//!
//! Drawn by `plotters`, which knows only fixed colours. Axes and letters are drawn in a colour that
//! occurs nowhere else and is then replaced by `currentColor`, so that the page's own colour
//! applies, light or dark; [`standalone`] gives a file of its own both colours. The curves' colours
//! are readable on both.

use std::ops::Range;

use anyhow::{Result, anyhow};
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::html::escape;

const WIDTH: u32 = 640;
/// Of the plot, without the legend below it.
const HEIGHT: u32 = 400;
const LEGEND_LINE: u32 = 18;

/// Stands for the page's text colour.
const INK: RGBColor = RGBColor(1, 2, 3);
const INK_TEXT: &str = "#010203";

const ORANGE: RGBColor = RGBColor(217, 108, 20);
const BLUE: RGBColor = RGBColor(45, 130, 210);
const GREY: RGBColor = RGBColor(127, 132, 140);

/// The curves' colours, told apart by most kinds of colour blindness and on light and dark ground.
const COLOURS: [RGBColor; 6] =
    [ORANGE, BLUE, RGBColor(58, 154, 91), RGBColor(160, 90, 200), RGBColor(194, 59, 78), GREY];

/// How a curve is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Line {
    /// With a dot at each point.
    Thick,
    /// Paler, with a small dot at each point.
    Thin,
    /// Without dots: what was not measured or simulated here.
    Dashed,
}

/// One curve.
pub struct Curve {
    /// The name in the legend.
    pub name: String,
    /// Which of the six colours; higher numbers begin anew.
    pub colour: usize,
    /// How it is drawn.
    pub line: Line,
    /// The points, by ascending x.
    pub points: Vec<(f64, f64)>,
}

/// A chart without its curves.
pub struct Chart<'a> {
    /// Above the plot, and for those who cannot see it.
    pub title: &'a str,
    /// What x is.
    pub x: &'a str,
    /// What y is.
    pub y: &'a str,
    /// Whether y has a logarithmic axis, in whole decades, or one from 0.
    pub log: bool,
    /// The labels of the y axis.
    pub label: fn(f64) -> String,
    /// Name and value of a horizontal line.
    pub limit: Option<(&'a str, f64)>,
}

impl Chart<'_> {
    /// Draws the curves, with a legend below.
    ///
    /// # Errors
    ///
    /// The drawing library fails, or there is no point to draw.
    pub fn draw(&self, curves: &[Curve]) -> Result<String> {
        let points = || curves.iter().flat_map(|curve| curve.points.iter().copied());
        let xs = bounds(points().map(|(x, _)| x)).ok_or_else(|| anyhow!("no points"))?;
        let ys = points().map(|(_, y)| y).chain(self.limit.map(|(_, value)| value));
        let ys = bounds(ys).ok_or_else(|| anyhow!("no points"))?;
        let xs = 0.0..(if xs.end > 0.0 { xs.end } else { 1.0 }) * 1.02;
        let size = (WIDTH, HEIGHT + LEGEND_LINE * curves.len().div_ceil(2) as u32 + 6);

        let mut svg = String::new();
        let drawn = if self.log {
            // Whole decades, so that the grid has labels, and never an empty range.
            let ys = 10f64.powf(ys.start.max(0.01).log10().floor())
                ..10f64.powf((ys.end.max(0.02).log10() + 1e-9).floor() + 1.0);
            self.plot(&mut svg, size, curves, xs, ys.log_scale())
        } else {
            let top = if ys.end > 0.0 { ys.end * 1.05 } else { 1.0 };
            self.plot(&mut svg, size, curves, xs, 0.0..top)
        };
        drawn.map_err(|error| anyhow!("cannot draw the chart \"{}\": {error}", self.title))?;
        Ok(adapt(&svg, size, self.title))
    }

    fn plot<Y: AsRangedCoord<Value = f64>>(
        &self,
        svg: &mut String,
        size: (u32, u32),
        curves: &[Curve],
        xs: Range<f64>,
        ys: Y,
    ) -> Result<(), DrawingAreaErrorKind<std::io::Error>>
    where
        Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        let whole = SVGBackend::with_string(svg, size).into_drawing_area();
        let (area, below) = whole.split_vertically(HEIGHT);
        let mut chart = ChartBuilder::on(&area)
            .caption(self.title, font(16))
            .margin(8)
            .x_label_area_size(40)
            .y_label_area_size(72)
            .build_cartesian_2d(xs.clone(), ys)?;
        chart
            .configure_mesh()
            .x_desc(self.x)
            .y_desc(self.y)
            .axis_style(INK.stroke_width(1))
            .bold_line_style(INK.mix(0.18))
            .light_line_style(INK.mix(0.06))
            .label_style(font(13))
            .axis_desc_style(font(13))
            .x_label_formatter(&|x| number(*x))
            .y_label_formatter(&|y| (self.label)(*y))
            .draw()?;

        if let Some((name, value)) = self.limit {
            let ends = [(xs.start, value), (xs.end, value)];
            let style = INK.mix(0.7).stroke_width(1);
            chart.draw_series(DashedLineSeries::new(ends, 6, 4, style))?;
            let style = font(12).into_text_style(&area).pos(Pos::new(HPos::Right, VPos::Bottom));
            chart.draw_series([Text::new(name.to_owned(), (xs.end, value), style)])?;
        }
        for curve in curves {
            let points = curve.points.iter().copied();
            let (colour, style) = style(curve);
            if curve.line == Line::Dashed {
                // A lone point is no line.
                if let [point] = curve.points[..] {
                    chart.draw_series([Circle::new(point, 5, style)])?;
                }
                chart.draw_series(DashedLineSeries::new(points, 6, 4, style))?;
                continue;
            }
            chart.draw_series(LineSeries::new(points.clone(), style))?;
            let dot = if curve.line == Line::Thick { 3 } else { 2 };
            chart.draw_series(points.map(|p| Circle::new(p, dot, colour.filled())))?;
        }
        for (index, curve) in curves.iter().enumerate() {
            let x = 72 + (index % 2 * 280) as i32;
            let y = (index / 2 * LEGEND_LINE as usize + 9) as i32;
            let ends =
                if curve.line == Line::Dashed { vec![(0, 8), (16, 24)] } else { vec![(0, 24)] };
            for (from, to) in ends {
                below.draw(&PathElement::new([(x + from, y), (x + to, y)], style(curve).1))?;
            }
            let style = font(13).into_text_style(&below).pos(Pos::new(HPos::Left, VPos::Center));
            below.draw(&Text::new(curve.name.clone(), (x + 30, y), style))?;
        }
        whole.present()
    }
}

fn font(size: u32) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&INK)
}

fn style(curve: &Curve) -> (RGBAColor, ShapeStyle) {
    let colour = COLOURS[curve.colour % COLOURS.len()];
    let (colour, width) = match curve.line {
        Line::Thick => (colour.to_rgba(), 3),
        Line::Thin => (colour.mix(0.75), 1),
        Line::Dashed => (colour.to_rgba(), 2),
    };
    (colour, colour.stroke_width(width))
}

/// A horizontal bar with the range that its value had.
pub struct Bar {
    /// Left of the bar.
    pub name: String,
    /// Right of the range.
    pub text: String,
    /// Lowest value, length of the bar, highest value.
    pub values: [f64; 3],
    /// Set off by colour.
    pub main: bool,
}

/// Where a bar begins, how long the longest range is, and how high a line.
const BAR: (i32, f64, u32) = (250, 420.0, 22);

/// Draws bars, the longest range as wide as there is room.
///
/// # Errors
///
/// The drawing library fails.
pub fn bars(title: &str, bars: &[Bar]) -> Result<String> {
    draw_bars(title, bars, false)
}

/// The same below a line with the title.
///
/// # Errors
///
/// The drawing library fails.
pub fn headed_bars(title: &str, bars: &[Bar]) -> Result<String> {
    draw_bars(title, bars, true)
}

fn draw_bars(title: &str, bars: &[Bar], headed: bool) -> Result<String> {
    let (left, room, line) = BAR;
    let top = if headed { line } else { 0 };
    let longest = bars.iter().map(|bar| bar.values[2]).fold(0.0, f64::max);
    let place = |value: f64| {
        let share = if longest > 0.0 { value.max(0.0) / longest } else { 0.0 };
        left + (share * room).round() as i32
    };
    let size = (860, top + line * bars.len().max(1) as u32);
    let mut svg = String::new();
    let draw = |svg: &mut String| -> Result<(), DrawingAreaErrorKind<std::io::Error>> {
        let area = SVGBackend::with_string(svg, size).into_drawing_area();
        for (index, bar) in bars.iter().enumerate() {
            let y = (top + line * index as u32 + line / 2) as i32;
            let [low, value, high] = bar.values.map(place);
            let colour = if bar.main { BLUE } else { GREY };
            let corners = [(left, y - 7), (value.max(left + 1), y + 7)];
            area.draw(&Rectangle::new(corners, colour.filled()))?;
            area.draw(&PathElement::new([(low, y), (high, y)], INK.stroke_width(1)))?;
            for (text, x, side) in
                [(&bar.name, left - 8, HPos::Right), (&bar.text, high + 8, HPos::Left)]
            {
                let style = font(13).into_text_style(&area).pos(Pos::new(side, VPos::Center));
                area.draw(&Text::new(text.clone(), (x, y), style))?;
            }
        }
        if headed {
            let style = font(13).into_text_style(&area).pos(Pos::new(HPos::Left, VPos::Center));
            area.draw(&Text::new(title.to_owned(), (8, line as i32 / 2), style))?;
        }
        area.present()
    };
    draw(&mut svg).map_err(|error| anyhow!("cannot draw the bars \"{title}\": {error}"))?;
    Ok(adapt(&svg, size, title))
}

fn bounds(values: impl Iterator<Item = f64>) -> Option<Range<f64>> {
    let finite = values.filter(|value| value.is_finite());
    finite.fold(None, |range: Option<Range<f64>>, value| {
        let range = range.unwrap_or(value..value);
        Some(range.start.min(value)..range.end.max(value))
    })
}

/// Three digits that mean something, without zeros at the end of a fraction.
pub fn number(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        _ => 2,
    };
    let text = format!("{value:.digits$}");
    if digits == 0 { text } else { text.trim_end_matches('0').trim_end_matches('.').to_owned() }
}

/// Makes the drawing scale with the page, take its colour, and readable to those who cannot see it.
fn adapt(svg: &str, (width, height): (u32, u32), title: &str) -> String {
    let fixed = format!("<svg width=\"{width}\" height=\"{height}\" viewBox");
    let fluid = format!("<svg role=\"img\" aria-label=\"{}\" viewBox", escape(title));
    svg.replacen(&fixed, &fluid, 1).replace(INK_TEXT, "currentColor")
}

/// The drawing as a file of its own, which no page gives its colour.
pub fn standalone(svg: &str) -> String {
    const STYLE: &str = "<style>svg { color: #1c1f23; } @media (prefers-color-scheme: dark) \
                         { svg { color: #dfe3e8; } }</style>";
    svg.replacen('>', &format!(">{STYLE}"), 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(points: &[(f64, f64)]) -> Curve {
        Curve { name: "a <curve>".into(), colour: 0, line: Line::Thick, points: points.to_vec() }
    }

    fn chart(log: bool) -> Chart<'static> {
        Chart { title: "P & \"Q\"", x: "load", y: "", log, label: number, limit: None }
    }

    #[test]
    fn the_drawing_has_axes_curve_legend_and_limit() {
        let curves = [curve(&[(10.0, 3.0), (50.0, 40.0), (90.0, 20_000.0)])];
        let chart = Chart { limit: Some(("objective", 50.0)), ..chart(true) };
        let svg = chart.draw(&curves).unwrap();
        for part in ["P &amp; ", "a &lt;curve&gt;", "objective", "10000", "<polyline", "load"] {
            assert!(svg.contains(part), "{part} is missing");
        }
        assert!(!svg.contains("<curve>"));
    }

    #[test]
    fn the_page_s_colour_and_size_apply() {
        let svg = chart(true).draw(&[curve(&[(10.0, 3.0)])]).unwrap();
        assert!(svg.contains("currentColor") && !svg.contains(INK_TEXT));
        let head = "<svg role=\"img\" aria-label=\"P &amp; &quot;Q&quot;\" viewBox=\"0 0 640 424\"";
        assert!(svg.starts_with(head), "{}", &svg[..90]);
        assert!(!svg.to_lowercase().contains("#ffffff"), "a white ground would hide on dark pages");
        let file = standalone(&svg);
        assert!(
            file.contains("\"><style>svg { color: ") && file.contains("scheme: dark"),
            "{file}"
        );
        assert!(file.contains("xmlns=\"http://www.w3.org/2000/svg\""), "{file}");
    }

    #[test]
    fn extreme_values_can_be_drawn_and_nothing_cannot() {
        for log in [false, true] {
            chart(log).draw(&[curve(&[(0.1, 0.0)])]).unwrap();
            chart(log).draw(&[curve(&[(0.0, 0.0)])]).unwrap();
            chart(log).draw(&[curve(&[(50.0, 1e7), (50.0, 1e7)])]).unwrap();
            assert!(chart(log).draw(&[curve(&[])]).is_err());
            assert!(chart(log).draw(&[]).is_err());
        }
    }

    #[test]
    fn other_people_s_curves_are_dashed() {
        let count = |line| {
            let curve = Curve { line, ..curve(&[(0.0, 1.0), (100.0, 1.0)]) };
            chart(false).draw(&[curve]).unwrap().matches("<polyline").count()
        };
        assert!(count(Line::Dashed) > count(Line::Thick) + 10);
        let point = Curve { line: Line::Dashed, ..curve(&[(50.0, 1.0)]) };
        assert!(chart(false).draw(&[point]).unwrap().contains("<circle"), "a lone point is seen");
    }

    #[test]
    fn bars_are_as_long_as_their_medians() {
        let bar = |name: &str, value: f64, main| Bar {
            name: name.into(),
            text: number(value),
            values: [value / 2.0, value, value * 2.0],
            main,
        };
        let svg = bars("b", &[bar("a & b", 50.0, true), bar("go", 100.0, false)]).unwrap();
        assert!(svg.contains("width=\"105\"") && svg.contains("width=\"210\""), "{svg}");
        assert_eq!(svg.matches("#2D82D2").count(), 1, "{svg}");
        assert!(svg.contains("a &amp; b"));
        bars("b", &[bar("nothing", 0.0, true)]).unwrap();
        let headed = headed_bars("the title", &[bar("go", 1.0, false)]).unwrap();
        assert!(headed.contains("the title\n</text>") && !svg.contains("\nb\n"), "{headed}");
    }

    #[test]
    fn numbers_have_three_digits() {
        let texts = [0.0, 1.0, 1.25, 12.34, 100.0, 1234.5].map(number);
        assert_eq!(texts, ["0", "1", "1.25", "12.3", "100", "1234"]);
    }
}
