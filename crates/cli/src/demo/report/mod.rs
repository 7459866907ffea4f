//! The HTML report: one file that needs no other.

mod html;

pub use html::render;
