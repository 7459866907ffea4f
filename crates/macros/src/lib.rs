//! quaver-macros
