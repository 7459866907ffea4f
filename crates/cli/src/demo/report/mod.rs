//! The HTML report: one file that needs no other.

mod html;
pub mod plot;

pub use html::render;
