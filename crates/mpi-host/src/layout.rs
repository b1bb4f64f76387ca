//! DatatypeLayouts: the parts of a datatype that Pario needs, computed once per datatype.
//!
//! A table from handle to layout serves repeated uses without a host call. An attribute on the datatype keeps the
//! table valid: its delete function runs before the host can reuse the handle, and its copy function passes the layout
//! to duplicates. Named types are never freed and need no attribute.

use crate::callback::catch_panic;
use crate::error::HostError;
use crate::handles::{Host, TypeHandle, host};
use pario_view::Pattern;
use parking_lot::RwLock;
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, OnceLock};

/// The layout of a datatype.
#[derive(Debug)]
pub struct DatatypeLayout {
    /// DatatypeLayout in memory, and in a file of native data representation.
    pub native: Pattern,
    /// Whether the type is predefined and must not be freed.
    pub named: bool,
    typed: OnceLock<Pattern>,
    external: OnceLock<Pattern>,
}

#[derive(Default)]
pub(crate) struct DatatypeLayouts {
    known: RwLock<HashMap<TypeHandle, Arc<DatatypeLayout>, BuildHasherDefault<HandleHasher>>>,
    keyval: OnceLock<c_int>,
}

/// A hasher for handles. They are few and come from the host, so a multiplication mixes them well enough. The hasher
/// of the standard library took a sixth of all instructions of a small access.
#[derive(Default)]
struct HandleHasher(u64);

impl Hasher for HandleHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_usize(usize::from(*byte)));
    }

    fn write_usize(&mut self, word: usize) {
        self.0 = (self.0 ^ word as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl DatatypeLayouts {
    fn get(&self, datatype: TypeHandle) -> Option<Arc<DatatypeLayout>> {
        self.known.read().get(&datatype).cloned()
    }

    fn insert(&self, datatype: TypeHandle, layout: &Arc<DatatypeLayout>) {
        self.known.write().insert(datatype, layout.clone());
    }

    fn remove(&self, datatype: TypeHandle) -> Option<Arc<DatatypeLayout>> {
        self.known.write().remove(&datatype)
    }
}

impl Host {
    /// The layout of a datatype.
    pub fn layout(&self, datatype: TypeHandle) -> Result<Arc<DatatypeLayout>, HostError> {
        if let Some(known) = self.layouts.get(datatype) {
            return Ok(known);
        }
        self.plausible_type(datatype)?;
        let _quiet = self.return_errors();
        let named = self.is_named(datatype)?;
        if !named && let Some(copied) = self.attached(datatype)? {
            self.layouts.insert(datatype, &copied);
            return Ok(copied);
        }
        let native = Pattern::native(&*self.decode_valid(datatype)?)?;
        let layout =
            Arc::new(DatatypeLayout { native, named, typed: OnceLock::new(), external: OnceLock::new() });
        if !named {
            self.attach(datatype, &layout)?;
        }
        self.layouts.insert(datatype, &layout);
        Ok(layout)
    }

    /// The native layout with the basic type of every leaf, for conversions.
    pub fn typed(&self, datatype: TypeHandle) -> Result<Pattern, HostError> {
        let layout = self.layout(datatype)?;
        if let Some(pattern) = layout.typed.get() {
            return Ok(pattern.clone());
        }
        let pattern = Pattern::typed(&*self.decode(datatype)?)?;
        Ok(layout.typed.get_or_init(|| pattern).clone())
    }

    /// The layout in a file of external32 representation.
    pub fn external(&self, datatype: TypeHandle) -> Result<Pattern, HostError> {
        let layout = self.layout(datatype)?;
        if let Some(pattern) = layout.external.get() {
            return Ok(pattern.clone());
        }
        let pattern = Pattern::external(&*self.decode(datatype)?)?;
        Ok(layout.external.get_or_init(|| pattern).clone())
    }

    /// The layout that an attribute copied from the original of a duplicate.
    fn attached(&self, datatype: TypeHandle) -> Result<Option<Arc<DatatypeLayout>>, HostError> {
        let mut value: *mut c_void = std::ptr::null_mut();
        let mut flag = 0;
        let out = (&raw mut value).cast::<c_void>();
        // SAFETY: a handle by value; writes one pointer and one int.
        let code = unsafe { (self.f.type_get_attr)(datatype.0, self.keyval()?, out, &mut flag) };
        self.check("MPI_Type_get_attr", code)?;
        if flag == 0 || value.is_null() {
            return Ok(None);
        }
        let layout = value.cast_const().cast::<DatatypeLayout>();
        // SAFETY: only `attach` and `copied` set this attribute, to a pointer from `Arc::into_raw` whose
        // count the attribute holds; we take one of our own.
        Ok(Some(unsafe {
            Arc::increment_strong_count(layout);
            Arc::from_raw(layout)
        }))
    }

    fn attach(&self, datatype: TypeHandle, layout: &Arc<DatatypeLayout>) -> Result<(), HostError> {
        let keyval = self.keyval()?;
        let value = Arc::into_raw(layout.clone()).cast_mut().cast::<c_void>();
        // SAFETY: a handle by value and a pointer that `deleted` takes back.
        let result =
            self.check("MPI_Type_set_attr", unsafe { (self.f.type_set_attr)(datatype.0, keyval, value) });
        if result.is_err() {
            // SAFETY: the host did not take the pointer.
            drop(unsafe { Arc::from_raw(value.cast_const().cast::<DatatypeLayout>()) });
        }
        result
    }

    fn keyval(&self) -> Result<c_int, HostError> {
        if let Some(&keyval) = self.layouts.keyval.get() {
            return Ok(keyval);
        }
        let mut keyval = 0;
        // SAFETY: both functions have the signatures that the standard prescribes and are never unloaded.
        let code = unsafe { (self.f.type_create_keyval)(copied, deleted, &mut keyval, std::ptr::null_mut()) };
        self.check("MPI_Type_create_keyval", code)?;
        // Two threads may run this at once; then one keyval remains unused.
        Ok(*self.layouts.keyval.get_or_init(|| keyval))
    }

    /// The number of datatypes with a layout in the table.
    pub fn known_layouts(&self) -> usize {
        self.layouts.known.read().len()
    }
}

/// The attribute copy function: a duplicate shares the layout.
unsafe extern "C" fn copied(
    _: usize,
    _: c_int,
    _: *mut c_void,
    value: *mut c_void,
    out: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: the value is one of ours (see `attach`); `out` is a `void **` and `flag` an `int *`.
    unsafe {
        Arc::increment_strong_count(value.cast_const().cast::<DatatypeLayout>());
        out.cast::<*mut c_void>().write(value);
        flag.write(1);
    }
    0
}

/// The attribute delete function: the datatype is freed, or got another layout.
unsafe extern "C" fn deleted(datatype: usize, _: c_int, value: *mut c_void, _: *mut c_void) -> c_int {
    catch_panic(1, || {
        if let Ok(host) = host() {
            drop(host.layouts.remove(host.datatype(datatype)));
        }
        // SAFETY: the value is one of ours, and the attribute's count ends here.
        drop(unsafe { Arc::from_raw(value.cast_const().cast::<DatatypeLayout>()) });
        0
    })
}
