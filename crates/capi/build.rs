//! The library is never unloaded: threads of its own run in it, and handlers of the C library point into it.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo::rerun-if-changed=build.rs");
}
