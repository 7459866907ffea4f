//! Builds the part that is written against Boost.Fiber, where that is installed.

const SOURCE: &str = "src/boost_fibers.cpp";
const HEADERS: &str = "/usr/include/boost/fiber/all.hpp";

fn main() {
    println!("cargo::rustc-check-cfg=cfg(boost_fiber)");
    println!("cargo::rerun-if-changed={SOURCE}");
    println!("cargo::rerun-if-changed={HEADERS}");
    println!("cargo::rerun-if-env-changed=CXX");
    if !std::path::Path::new(HEADERS).exists() {
        return;
    }
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .opt_level(2)
        .define("NDEBUG", None)
        .file(SOURCE)
        .compile("boost_fibers");
    for library in ["boost_fiber", "boost_context"] {
        println!("cargo::rustc-link-lib={library}");
    }
    println!("cargo::rustc-cfg=boost_fiber");
}
