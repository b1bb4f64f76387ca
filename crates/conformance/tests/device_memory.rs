//! Buffers in the memory of a GPU, by stand-ins for the driver libraries of CUDA and HIP.

mod table;

use std::process::Command;

use pario_conformance::{BOTH, Scratch, scratch, workspace_dir};
use table::{all_hold, table_run};

/// Compiles a stand-in for a driver library.
fn driver(dir: &Scratch, name: &str, flags: &[&str]) -> std::path::PathBuf {
    let source = workspace_dir().join("crates/conformance/programs/hosts/fake_device.c");
    let library = dir.join(name);
    let mut compiler = Command::new("cc");
    compiler
        .args(["-std=gnu11", "-Wall", "-shared", "-fPIC"])
        .args(flags)
        .arg("-o")
        .arg(&library)
        .arg(source);
    assert!(compiler.status().expect("cc runs").success());
    library
}

#[test]
fn memory_of_a_gpu_is_copied_or_refused() {
    let libraries = scratch();
    let cuda = driver(&libraries, "libcuda.so.1", &[]);
    let hip = driver(&libraries, "libamdhip64.so.6", &["-DHIP"]);
    for host in BOTH {
        for library in [&cuda, &hip] {
            let dir = scratch();
            all_hold(&table_run(host, 2, "device", &dir).arg(library).run());
            let dir = scratch();
            let run = table_run(host, 2, "device", &dir).arg(library).arg("fails");
            all_hold(&run.env("FAKE_DEVICE_FAILS", "1").run());
        }
    }
}
