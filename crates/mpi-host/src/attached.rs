//! A value attached to a communicator. It is found again with the same communicator, and dropped when the communicator
//! is freed.

use crate::callback::catch_panic;
use crate::comm::Comm;
use crate::error::HostError;
use crate::handles::Host;
use std::any::Any;
use std::ffi::{c_int, c_void};
use std::sync::{Arc, OnceLock};

/// A value that can be attached.
pub type Attachment = Arc<dyn Any + Send + Sync>;

impl Comm {
    /// The value attached to this communicator. Duplicates do not inherit it.
    pub fn attached(self) -> Result<Option<Attachment>, HostError> {
        let host = self.host();
        let (mut value, mut flag) = (std::ptr::null_mut::<c_void>(), 0);
        let keyval = host.attachment_keyval()?;
        // SAFETY: a handle by value; writes a pointer and an int.
        let code = unsafe { (host.f.comm_get_attr)(self.raw(), keyval, (&raw mut value).cast(), &mut flag) };
        host.check("MPI_Comm_get_attr", code)?;
        if flag == 0 || value.is_null() {
            return Ok(None);
        }
        // SAFETY: only `attach` sets this attribute, to a box that lives until the attribute is deleted.
        Ok(Some(unsafe { &*value.cast::<Attachment>() }.clone()))
    }

    /// Attaches a value, in place of the previous one.
    pub fn attach(self, what: Attachment) -> Result<(), HostError> {
        let host = self.host();
        let keyval = host.attachment_keyval()?;
        let value = Box::into_raw(Box::new(what));
        // SAFETY: a handle by value; the box is the host's until it calls `dropped`.
        let code = unsafe { (host.f.comm_set_attr)(self.raw(), keyval, value.cast()) };
        host.check("MPI_Comm_set_attr", code).inspect_err(|_| {
            // SAFETY: the host did not take it.
            drop(unsafe { Box::from_raw(value) });
        })
    }
}

impl Host {
    fn attachment_keyval(&self) -> Result<c_int, HostError> {
        static KEYVAL: OnceLock<c_int> = OnceLock::new();
        if let Some(keyval) = KEYVAL.get() {
            return Ok(*keyval);
        }
        let mut keyval = 0;
        // SAFETY: both functions have the signatures that the standard prescribes and are never unloaded.
        let code =
            unsafe { (self.f.comm_create_keyval)(not_copied, dropped, &mut keyval, std::ptr::null_mut()) };
        self.check("MPI_Comm_create_keyval", code)?;
        Ok(*KEYVAL.get_or_init(|| keyval))
    }
}

/// The attribute copy function: duplicates do not inherit the value.
pub(crate) unsafe extern "C" fn not_copied(
    _: usize,
    _: c_int,
    _: *mut c_void,
    _: *mut c_void,
    _: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: the host passes an `int *`.
    unsafe { flag.write(0) };
    0
}

/// The attribute delete function.
unsafe extern "C" fn dropped(_: usize, _: c_int, value: *mut c_void, _: *mut c_void) -> c_int {
    catch_panic(1, || {
        // SAFETY: the box that `attach` gave to the host, given back once.
        drop(unsafe { Box::from_raw(value.cast::<Attachment>()) });
        0
    })
}
