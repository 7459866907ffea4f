//! The HTML report: one file that needs no other. Its curves are files of their own, too.

mod html;

pub use html::{charts, render};
