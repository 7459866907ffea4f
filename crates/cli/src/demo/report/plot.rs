//! Latency-load curves as SVG.
//!
//! Drawn by `plotters`, which knows only fixed colours. Axes and letters are drawn in a colour that
//! occurs nowhere else and is then replaced by `currentColor`, so that the page's own colour
//! applies, light or dark. The curves' colours are readable on both.

use std::ops::Range;

use anyhow::{Result, anyhow};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::demo::table;

const SIZE: (u32, u32) = (640, 400);

/// Stands for the page's text colour.
const INK: RGBColor = RGBColor(1, 2, 3);
const INK_TEXT: &str = "#010203";

/// The curves' colours, told apart by most kinds of colour blindness and on light and dark ground.
const ORANGE: RGBColor = RGBColor(217, 108, 20);
const BLUE: RGBColor = RGBColor(45, 130, 210);

/// One curve: loads in percent and times in microseconds.
pub struct Curve {
    /// The name in the legend.
    pub name: String,
    /// 0 or 1: which colour.
    pub colour: usize,
    /// Thick or thin.
    pub main: bool,
    /// The points, by ascending load.
    pub points: Vec<(f64, f64)>,
}

/// Draws the curves over the load; `limit` is the name and value of a horizontal line.
///
/// # Errors
///
/// The drawing library fails, or there is no point to draw.
pub fn draw(title: &str, curves: &[Curve], limit: Option<(&str, f64)>) -> Result<String> {
    let points = || curves.iter().flat_map(|curve| curve.points.iter().copied());
    let loads = bounds(points().map(|(load, _)| load)).ok_or_else(|| anyhow!("no points"))?;
    let times = points().map(|(_, time)| time).chain(limit.map(|(_, value)| value));
    let times = bounds(times).ok_or_else(|| anyhow!("no points"))?;
    // Whole decades, so that the grid has labels, and never an empty range.
    let times = 10f64.powf(times.start.max(0.01).log10().floor())
        ..10f64.powf((times.end.max(0.02).log10() + 1e-9).floor() + 1.0);
    let loads = 0.0..loads.end.max(1.0) * 1.02;

    let mut svg = String::new();
    plot(&mut svg, title, curves, limit, loads, times)
        .map_err(|error| anyhow!("cannot draw the chart \"{title}\": {error}"))?;
    Ok(adapt(&svg, title))
}

fn bounds(values: impl Iterator<Item = f64>) -> Option<Range<f64>> {
    let finite = values.filter(|value| value.is_finite());
    finite.fold(None, |range: Option<Range<f64>>, value| {
        let range = range.unwrap_or(value..value);
        Some(range.start.min(value)..range.end.max(value))
    })
}

fn plot(
    svg: &mut String,
    title: &str,
    curves: &[Curve],
    limit: Option<(&str, f64)>,
    loads: Range<f64>,
    times: Range<f64>,
) -> Result<(), DrawingAreaErrorKind<std::io::Error>> {
    let font = |size: u32| ("sans-serif", size).into_font().color(&INK);
    let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    let mut chart = ChartBuilder::on(&area)
        .caption(title, font(18))
        .margin(8)
        .x_label_area_size(40)
        .y_label_area_size(64)
        .build_cartesian_2d(loads.clone(), times.log_scale())?;
    chart
        .configure_mesh()
        .x_desc("offered load, % of the workers' capacity")
        .axis_style(INK.stroke_width(1))
        .bold_line_style(INK.mix(0.18))
        .light_line_style(INK.mix(0.06))
        .label_style(font(13))
        .axis_desc_style(font(13))
        .x_label_formatter(&|load| format!("{load:.0}"))
        .y_label_formatter(&|time| label(*time))
        .draw()?;

    if let Some((name, value)) = limit {
        let dashes = DashedLineSeries::new(
            [(loads.start, value), (loads.end, value)],
            6,
            4,
            INK.mix(0.7).stroke_width(1),
        );
        chart.draw_series(dashes)?;
        let style = font(12).into_text_style(&area).pos(Pos::new(HPos::Right, VPos::Bottom));
        chart.draw_series([Text::new(name.to_owned(), (loads.end, value), style)])?;
    }
    for curve in curves {
        let colour = [ORANGE, BLUE][curve.colour % 2];
        let (colour, width) =
            if curve.main { (colour.to_rgba(), 3) } else { (colour.mix(0.75), 1) };
        let style = colour.stroke_width(width);
        chart
            .draw_series(LineSeries::new(curve.points.iter().copied(), style))?
            .label(curve.name.clone())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
        let dot = if curve.main { 3 } else { 2 };
        chart.draw_series(curve.points.iter().map(|&p| Circle::new(p, dot, colour.filled())))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .margin(6)
        .label_font(font(13))
        .draw()?;
    area.present()
}

/// A power of ten without its zeros behind the point.
fn label(us: f64) -> String {
    let text = table::time(us);
    text.replace(".00 ", " ").replace(".0 ", " ")
}

/// Makes the drawing scale with the page, take its colour, and readable to those who cannot see it.
fn adapt(svg: &str, title: &str) -> String {
    let (width, height) = SIZE;
    let fixed = format!("<svg width=\"{width}\" height=\"{height}\" viewBox");
    let fluid = format!("<svg role=\"img\" aria-label=\"{title}\" viewBox");
    svg.replacen(&fixed, &fluid, 1).replace(INK_TEXT, "currentColor")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(points: &[(f64, f64)]) -> Curve {
        Curve { name: "a curve".into(), colour: 0, main: true, points: points.to_vec() }
    }

    #[test]
    fn the_drawing_has_axes_curve_legend_and_limit() {
        let curves = [curve(&[(10.0, 3.0), (50.0, 40.0), (90.0, 20_000.0)])];
        let svg = draw("Latency of GETs", &curves, Some(("objective", 50.0))).unwrap();
        for part in
            ["Latency of GETs", "a curve", "objective", "10 µs", "10 ms", "<polyline", "% of"]
        {
            assert!(svg.contains(part), "{part} is missing");
        }
    }

    #[test]
    fn the_page_s_colour_and_size_apply() {
        let svg = draw("t", &[curve(&[(10.0, 3.0)])], None).unwrap();
        assert!(svg.contains("currentColor") && !svg.contains(INK_TEXT));
        assert!(
            svg.starts_with("<svg role=\"img\" aria-label=\"t\" viewBox=\"0 0 640 400\""),
            "{}",
            &svg[..90]
        );
        assert!(!svg.to_lowercase().contains("#ffffff"), "a white ground would hide on dark pages");
    }

    #[test]
    fn extreme_values_can_be_drawn_and_nothing_cannot() {
        draw("t", &[curve(&[(0.1, 0.0)])], None).unwrap();
        draw("t", &[curve(&[(50.0, 1e7), (50.0, 1e7)])], None).unwrap();
        assert!(draw("t", &[curve(&[])], None).is_err());
        assert!(draw("t", &[], None).is_err());
    }
}
