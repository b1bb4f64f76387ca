use pario_buffer::UserBuffer;
use pario_posix::{How, PlainFile, Tuning};
use pario_units::{Offset, Pos};
use pario_view::{Datatype, Pattern, Shape, View};
use std::sync::Arc;
use std::time::Instant;
struct Count;
static N: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
unsafe impl std::alloc::GlobalAlloc for Count {
    unsafe fn alloc(&self, l: std::alloc::Layout) -> *mut u8 {
        N.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        unsafe { std::alloc::System.alloc(l) }
    }
    unsafe fn dealloc(&self, p: *mut u8, l: std::alloc::Layout) {
        unsafe { std::alloc::System.dealloc(p, l) }
    }
}
#[global_allocator]
static A: Count = Count;
fn cpu() -> f64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut t) };
    t.tv_sec as f64 * 1e9 + t.tv_nsec as f64
}
fn main() {
    let path = std::path::Path::new("/dev/shm/zz_small");
    let f = PlainFile::open(path, &How { read: true, write: true, create: true, ..How::default() }).unwrap();
    f.set_size(1 << 20).unwrap();
    let mut m = vec![1u8; 4096];
    let b = unsafe { UserBuffer::new(m.as_mut_ptr(), Pattern::block(64), 1) };
    let lb = 0;
    let every = Pattern::native(&Datatype {
        lb,
        extent: 256,
        shape: Shape::Resized {
            lb,
            extent: 256,
            child: Arc::new(Datatype {
                lb,
                extent: 16,
                shape: Shape::Contiguous { count: 16, child: Arc::new(Datatype::byte()) },
            }),
        },
    })
    .unwrap();
    let views = [("contig", View::contiguous(Offset(0))), ("strided 4x16/256", View::new(Offset(0), every))];
    let n = 200_000u64;
    let _ = Instant::now();
    for (name, v) in &views {
        for (tn, t) in [
            ("sole", Tuning { sole: true, ..Tuning::default() }),
            ("nopeers", Tuning { peers_sieve: false, ..Tuning::default() }),
            ("peers", Tuning::default()),
        ] {
            for wr in [true, false] {
                let a = N.load(std::sync::atomic::Ordering::Relaxed);
                let s = cpu();
                for i in 0..n {
                    let at = Pos((i % 1000) * 64);
                    if wr {
                        f.write(v, at, &b, 0, 64, &t).unwrap();
                    } else {
                        f.read(v, at, &b, 0, 64, &t).unwrap();
                    }
                }
                println!(
                    "{name} {tn} {} {:.0} ns, {} allocs",
                    if wr { "write" } else { "read" },
                    (cpu() - s) / n as f64,
                    N.load(std::sync::atomic::Ordering::Relaxed) - a
                );
            }
        }
    }
    use std::os::unix::fs::FileExt;
    let raw = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut x = [0u8; 64];
    let s = cpu();
    for i in 0..n {
        raw.write_at(&x, (i % 1000) * 64).unwrap();
    }
    println!("raw pwrite {:.0}", (cpu() - s) / n as f64);
    let s = cpu();
    for i in 0..n {
        raw.read_at(&mut x, (i % 1000) * 64).unwrap();
    }
    println!("raw pread {:.0}", (cpu() - s) / n as f64);
    std::fs::remove_file(path).unwrap();
}
