//! quaver
