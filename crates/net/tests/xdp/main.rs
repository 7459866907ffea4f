//! AF_XDP devices on pairs of interfaces in network namespaces. Needs root, and says so where it is
//! not.

mod errors;
mod exchange;
mod forward;
mod frames;
mod life;
mod place;
