//! quaver-load
