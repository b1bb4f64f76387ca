//! Functions that run at the start of `MPI_Finalize`, while MPI still works.
//!
//! `MPI_Finalize` first deletes the attributes of `MPI_COMM_SELF` (MPI-4, 11.2.4), so an attribute with a
//! delete function is a hook that needs no interposition.

use crate::attached::not_copied;
use crate::callback::catch_panic;
use crate::error::HostError;
use crate::handles::Host;
use parking_lot::Mutex;
use std::ffi::{c_int, c_void};

/// The functions to run, and whether the attribute is set.
struct Hooks {
    run: Vec<fn()>,
    attached: bool,
}

static HOOKS: Mutex<Hooks> = Mutex::new(Hooks { run: Vec::new(), attached: false });

impl Host {
    /// Runs `f` at the start of `MPI_Finalize`; later ones run first. The same `f` is run once.
    pub fn at_finalize(&self, f: fn()) -> Result<(), HostError> {
        let mut hooks = HOOKS.lock();
        if !hooks.attached {
            self.attach_hook()?;
            hooks.attached = true;
        }
        if !hooks.run.iter().any(|&known| std::ptr::fn_addr_eq(known, f)) {
            hooks.run.push(f);
        }
        Ok(())
    }

    fn attach_hook(&self) -> Result<(), HostError> {
        let mut keyval = 0;
        // SAFETY: both functions have the signatures that the standard prescribes and are never unloaded.
        let code = unsafe { (self.f.comm_create_keyval)(not_copied, run, &mut keyval, std::ptr::null_mut()) };
        self.check("MPI_Comm_create_keyval", code)?;
        let me = self.constants.handle.comm_self;
        // SAFETY: a predefined communicator; the value is not used.
        let code = unsafe { (self.f.comm_set_attr)(me, keyval, std::ptr::null_mut()) };
        self.check("MPI_Comm_set_attr", code)
    }
}

/// The attribute delete function.
unsafe extern "C" fn run(_: usize, _: c_int, _: *mut c_void, _: *mut c_void) -> c_int {
    catch_panic(1, || {
        let hooks = std::mem::take(&mut HOOKS.lock().run);
        hooks.into_iter().rev().for_each(|f| f());
        0
    })
}
