//! The HTML report: one file that needs no other.

mod html;
mod plot;

pub use html::render;
