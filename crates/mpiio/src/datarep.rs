//! Data representations (MPI-4.1, 14.5): the encoding of values in the file.
//!
//! `native` and `internal` have the same bytes as memory. `external32` is the standard's portable encoding. A program
//! can register others with conversion functions of its own.

use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::sync::Arc;

use pario_mpi_host::TypeHandle;
use pario_types::{ErrorKind, fnv1a};

use crate::error::{Error, Result};

/// The conversion functions of a data representation that the program registered. The crate `capi` wraps the C
/// functions.
///
/// An `Err` holds the error code that the program's function returned. The functions may call MPI, so they run only on
/// the thread that made the MPI call.
pub trait ConversionFunctions: Send + Sync {
    /// The bytes of one item of a predefined datatype in the file.
    fn extent(&self, predefined: TypeHandle) -> std::result::Result<i64, i32>;
    /// Whether reads convert values; if not, the file has native values.
    fn converts_reads(&self) -> bool;
    /// Whether writes convert values; if not, the file gets native values.
    fn converts_writes(&self) -> bool;
    /// Converts `items` values from `file` to the program's buffer at `base`.
    fn read(
        &self,
        base: usize,
        datatype: TypeHandle,
        items: u64,
        file: &mut [u8],
    ) -> std::result::Result<(), i32>;
    /// Converts `items` values from the program's buffer at `base` to `file`.
    fn write(
        &self,
        base: usize,
        datatype: TypeHandle,
        items: u64,
        file: &mut [u8],
    ) -> std::result::Result<(), i32>;
}

/// The data representation of a view.
#[derive(Clone)]
pub enum Datarep {
    /// The same bytes as in memory.
    Native,
    /// The same bytes as in memory. The program promises that only systems of this kind read the file.
    Internal,
    /// The standard's portable encoding.
    External32,
    /// A representation that the program registered, with its name.
    User(String, Arc<dyn ConversionFunctions>),
}

static REGISTERED: RwLock<BTreeMap<String, Arc<dyn ConversionFunctions>>> = RwLock::new(BTreeMap::new());

/// The longest name: MPI_MAX_DATAREP_STRING is 128 on every host, including the final zero.
const MAX_NAME: usize = 127;

/// Registers a representation until the program ends.
pub fn register(name: &str, conversion: Arc<dyn ConversionFunctions>) -> Result<()> {
    if name.is_empty() || name.len() > MAX_NAME {
        return Err(Error::Usage(ErrorKind::Arg, "a data representation's name has 1 to 127 bytes"));
    }
    let mut registered = REGISTERED.write();
    if matches!(name, "native" | "internal" | "external32") || registered.contains_key(name) {
        return Err(Error::Usage(ErrorKind::DupDatarep, "a data representation of that name exists already"));
    }
    registered.insert(name.to_string(), conversion);
    Ok(())
}

impl Datarep {
    /// The representation with this name.
    pub fn named(name: &str) -> Result<Datarep> {
        match name {
            "native" => Ok(Datarep::Native),
            "internal" => Ok(Datarep::Internal),
            "external32" => Ok(Datarep::External32),
            _ => REGISTERED
                .read()
                .get(name)
                .map(|conversion| Datarep::User(name.to_string(), conversion.clone()))
                .ok_or(Error::Usage(
                    ErrorKind::UnsupportedDatarep,
                    "that data representation is not native, internal, external32 or a registered one",
                )),
        }
    }

    /// The name of the representation.
    pub fn name(&self) -> &str {
        match self {
            Datarep::Native => "native",
            Datarep::Internal => "internal",
            Datarep::External32 => "external32",
            Datarep::User(name, _) => name,
        }
    }

    /// A number by which ranks compare representations: a digest of the name.
    pub(crate) fn fingerprint(&self) -> u64 {
        fnv1a(self.name().bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nothing;
    impl ConversionFunctions for Nothing {
        fn extent(&self, _: TypeHandle) -> std::result::Result<i64, i32> {
            Ok(1)
        }
        fn converts_reads(&self) -> bool {
            false
        }
        fn converts_writes(&self) -> bool {
            false
        }
        fn read(&self, _: usize, _: TypeHandle, _: u64, _: &mut [u8]) -> std::result::Result<(), i32> {
            Ok(())
        }
        fn write(&self, _: usize, _: TypeHandle, _: u64, _: &mut [u8]) -> std::result::Result<(), i32> {
            Ok(())
        }
    }

    #[test]
    fn a_datarep_name_is_registered_once() {
        assert_eq!(Datarep::named("mine").err().unwrap().kind(), ErrorKind::UnsupportedDatarep);
        register("mine", Arc::new(Nothing)).unwrap();
        assert_eq!(Datarep::named("mine").unwrap().name(), "mine");
        for taken in ["mine", "native", "internal", "external32"] {
            assert_eq!(register(taken, Arc::new(Nothing)).unwrap_err().kind(), ErrorKind::DupDatarep);
        }
        assert_eq!(register("", Arc::new(Nothing)).unwrap_err().kind(), ErrorKind::Arg);
        assert_eq!(register(&"x".repeat(128), Arc::new(Nothing)).unwrap_err().kind(), ErrorKind::Arg);
    }
}
