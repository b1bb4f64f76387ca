//! Datatypes: decoding a handle into the tree of its constructors.
//!
//! Decoding asks the host for the envelope and contents of every node, through the large-count functions if the host
//! has them. The bounds of each node come from the host, so no code here handles markers and alignment. MPICH returns
//! the same handle for the same child, so each handle is decoded once per call; otherwise a type that uses a child
//! twice at every level would take exponential time. Handles are returned to the host when the whole tree is decoded,
//! so that no handle value is reused while it is still a key. Open MPI returns a fresh copy each time, which is freed
//! at once. The number of nodes is bounded for such hosts.

use crate::abi::AbiFamily;
use crate::error::HostError;
use crate::handles::{Host, TypeHandle};
use crate::named;
use pario_view::{Basic, Datatype, DistArg, Distrib, Kind, Order, Shape};
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::sync::Arc;

/// The maximum nesting of constructors. Decoding is recursive and runs on the program's stack.
const DEPTH: usize = 256;
/// The maximum number of derived nodes of one datatype. Each takes about a microsecond; real types have a few.
const NODES: usize = 1 << 20;

impl Host {
    /// The tree of constructors of a datatype.
    pub fn decode(&self, datatype: TypeHandle) -> Result<Arc<Datatype>, HostError> {
        self.plausible_type(datatype)?;
        let _quiet = self.return_errors();
        self.decode_valid(datatype)
    }

    /// Decodes a handle that passed the checks, while the host returns errors.
    pub(crate) fn decode_valid(&self, datatype: TypeHandle) -> Result<Arc<Datatype>, HostError> {
        self.decode_with(datatype, None)
    }

    /// As [`Host::decode`], with the file sizes of predefined types from `size_of` instead of external32, for data
    /// representations of the program.
    pub fn decode_sized(
        &self,
        datatype: TypeHandle,
        size_of: &mut dyn FnMut(TypeHandle) -> u32,
    ) -> Result<Arc<Datatype>, HostError> {
        self.plausible_type(datatype)?;
        let _quiet = self.return_errors();
        self.decode_with(datatype, Some(size_of))
    }

    fn decode_with(
        &self,
        datatype: TypeHandle,
        size_of: Option<&mut dyn FnMut(TypeHandle) -> u32>,
    ) -> Result<Arc<Datatype>, HostError> {
        let mut decoder =
            Decoder { host: self, left: NODES, done: HashMap::new(), borrowed: Vec::new(), size_of };
        decoder.node(datatype, DEPTH).map(|decoded| decoded.tree)
    }

    /// Whether the type is predefined (named, or one of `MPI_Type_create_f90_*` or
    /// `MPI_Type_get_value_index`), so that it must not be freed and needs no duplicate.
    pub fn is_named(&self, datatype: TypeHandle) -> Result<bool, HostError> {
        if self.named.get(datatype).is_some() {
            return Ok(true);
        }
        self.plausible_type(datatype)?;
        Ok(self.is_predefined(self.envelope(datatype)?.combiner))
    }

    fn is_predefined(&self, combiner: c_int) -> bool {
        let c = &self.constants.combiner;
        [c.named, c.f90_real, c.f90_complex, c.f90_integer, c.value_index].contains(&combiner)
    }

    /// The size of one instance.
    pub fn type_size(&self, datatype: TypeHandle) -> Result<u64, HostError> {
        let mut size = 0;
        // SAFETY: a handle by value; writes one 64-bit number.
        self.check("MPI_Type_size_x", unsafe { (self.f.type_size_x)(datatype.0, &mut size) })?;
        u64::try_from(size).map_err(|_| HostError::Contents("its size exceeds 2^63-1 bytes"))
    }

    /// The lower bound and the extent.
    pub fn extents(&self, datatype: TypeHandle) -> Result<(i64, i64), HostError> {
        let (mut lb, mut extent) = (0, 0);
        // SAFETY: a handle by value; writes two 64-bit numbers.
        let code = unsafe { (self.f.type_get_extent_x)(datatype.0, &mut lb, &mut extent) };
        self.check("MPI_Type_get_extent_x", code)?;
        Ok((lb, extent))
    }

    /// The true lower bound and the true extent.
    pub fn true_extents(&self, datatype: TypeHandle) -> Result<(i64, i64), HostError> {
        let (mut lb, mut extent) = (0, 0);
        // SAFETY: a handle by value; writes two 64-bit numbers.
        let code = unsafe { (self.f.type_get_true_extent_x)(datatype.0, &mut lb, &mut extent) };
        self.check("MPI_Type_get_true_extent_x", code)?;
        Ok((lb, extent))
    }

    /// A duplicate of a datatype. It survives when the program frees the original.
    pub fn type_dup(&self, datatype: TypeHandle) -> Result<TypeHandle, HostError> {
        let mut raw = 0;
        // SAFETY: a handle by value; writes one handle into a zeroed word.
        self.check("MPI_Type_dup", unsafe { (self.f.type_dup)(datatype.0, &mut raw) })?;
        Ok(TypeHandle(self.handle(raw)))
    }

    /// Frees a derived datatype.
    pub fn type_free(&self, datatype: TypeHandle) -> Result<(), HostError> {
        let mut raw = datatype.0;
        // SAFETY: a handle variable of ours, overwritten with the null handle.
        self.check("MPI_Type_free", unsafe { (self.f.type_free)(&mut raw) })
    }

    fn envelope(&self, datatype: TypeHandle) -> Result<Envelope, HostError> {
        let mut e = Envelope::default();
        if let (Some(get), Some(_)) = (self.f.type_get_envelope_c, self.f.type_get_contents_c) {
            // SAFETY: a handle by value; writes four 64-bit numbers and an int.
            let code = unsafe {
                get(datatype.0, &mut e.ints, &mut e.addresses, &mut e.counts, &mut e.types, &mut e.combiner)
            };
            self.check("MPI_Type_get_envelope_c", code)?;
            e.large = true;
            return Ok(e);
        }
        let (mut ints, mut addresses, mut types) = (0, 0, 0);
        // SAFETY: a handle by value; writes four ints.
        let code = unsafe {
            (self.f.type_get_envelope)(datatype.0, &mut ints, &mut addresses, &mut types, &mut e.combiner)
        };
        self.check("MPI_Type_get_envelope", code)?;
        (e.ints, e.addresses, e.types) = (ints.into(), addresses.into(), types.into());
        Ok(e)
    }

    fn contents(&self, datatype: TypeHandle, e: &Envelope) -> Result<Contents, HostError> {
        let room =
            |n: i64| usize::try_from(n).map_err(|_| HostError::Contents("a negative number of arguments"));
        // Each array has one spare element, so that its pointer is valid even if the array is empty.
        let mut ints = vec![0 as c_int; room(e.ints)? + 1];
        let mut addresses = vec![0i64; room(e.addresses)? + 1];
        let mut counts = vec![0i64; room(e.counts)? + 1];
        let mut types = vec![0usize; room(e.types)? + 1];
        let (i, a, c) = (ints.as_mut_ptr(), addresses.as_mut_ptr(), counts.as_mut_ptr());
        let t = types.as_mut_ptr().cast::<c_void>();
        match self.f.type_get_contents_c {
            Some(get) if e.large => {
                // SAFETY: the arrays have the announced lengths; handles take at most one word each.
                let code = unsafe { get(datatype.0, e.ints, e.addresses, e.counts, e.types, i, a, c, t) };
                self.check("MPI_Type_get_contents_c", code)?;
            }
            _ => {
                let (ni, na, nt) = (e.ints as c_int, e.addresses as c_int, e.types as c_int);
                // SAFETY: as above; the numbers came from the host as ints.
                let code = unsafe { (self.f.type_get_contents)(datatype.0, ni, na, nt, i, a, t) };
                self.check("MPI_Type_get_contents", code)?;
            }
        }
        let handles = (0..e.types as usize).map(|n| {
            // SAFETY: the host wrote `e.types` handles of this size, one after the other.
            TypeHandle(unsafe { self.load(t.cast_const().byte_add(n * self.handle_size())) })
        });
        let types = handles.collect();
        ints.pop();
        addresses.pop();
        counts.pop();
        Ok(Contents { ints: ints.into_iter().map(i64::from).collect(), addresses, counts, types })
    }
}

#[derive(Default)]
struct Envelope {
    combiner: c_int,
    ints: i64,
    addresses: i64,
    counts: i64,
    types: i64,
    /// Whether the contents came from the large-count function.
    large: bool,
}

struct Contents {
    ints: Vec<i64>,
    addresses: Vec<i64>,
    counts: Vec<i64>,
    types: Vec<TypeHandle>,
}

impl Contents {
    /// All numbers in one sequence. For every constructor except the two array constructors the standard lists the
    /// arguments in the same order, whether as ints and then addresses or, from a large-count constructor, as counts.
    fn sequence(&self) -> Numbers {
        if self.counts.is_empty() {
            Numbers(self.ints.iter().chain(&self.addresses).copied().collect::<Vec<_>>().into_iter())
        } else {
            Numbers(self.counts.clone().into_iter())
        }
    }

    /// The numbers of an array constructor: `(scalars and enumerations, array sizes)`.
    fn arrays(&self) -> (Numbers, Option<Numbers>) {
        let counts = (!self.counts.is_empty()).then(|| Numbers(self.counts.clone().into_iter()));
        (Numbers(self.ints.clone().into_iter()), counts)
    }
}

/// The arguments of a constructor, read one by one.
struct Numbers(std::vec::IntoIter<i64>);

const SHORT: HostError = HostError::Contents("too few arguments");
const NEGATIVE: HostError = HostError::Contents("a negative count");

impl Numbers {
    fn signed(&mut self) -> Result<i64, HostError> {
        self.0.next().ok_or(SHORT)
    }

    fn count(&mut self) -> Result<u64, HostError> {
        u64::try_from(self.signed()?).map_err(|_| NEGATIVE)
    }

    fn counts(&mut self, n: u64) -> Result<Vec<u64>, HostError> {
        self.signeds(n)?.into_iter().map(|v| u64::try_from(v).map_err(|_| NEGATIVE)).collect()
    }

    fn signeds(&mut self, n: u64) -> Result<Vec<i64>, HostError> {
        // Compares before collecting: the host reports `n`, and the rest is what it really wrote.
        if n > self.0.len() as u64 {
            return Err(SHORT);
        }
        Ok(self.0.by_ref().take(n as usize).collect())
    }

    /// `n` lengths followed by `n` displacements.
    fn blocks(&mut self, n: u64) -> Result<Vec<(u64, i64)>, HostError> {
        let lengths = self.counts(n)?;
        Ok(lengths.into_iter().zip(self.signeds(n)?).collect())
    }
}

struct Decoder<'a, 's> {
    host: &'a Host,
    /// The number of derived nodes that may still be decoded.
    left: usize,
    /// The file size of predefined types, if it is not that of external32.
    size_of: Option<&'s mut dyn FnMut(TypeHandle) -> u32>,
    done: HashMap<TypeHandle, Decoded>,
    /// The child handles that must be returned to the host.
    borrowed: Vec<TypeHandle>,
}

#[derive(Clone)]
struct Decoded {
    tree: Arc<Datatype>,
    /// Whether the type is predefined; its handle is not returned.
    predefined: bool,
}

impl Decoder<'_, '_> {
    fn node(&mut self, datatype: TypeHandle, depth: usize) -> Result<Decoded, HostError> {
        if let Some(done) = self.done.get(&datatype) {
            return Ok(done.clone());
        }
        let (tree, predefined) = self.fresh(datatype, depth)?;
        let decoded = Decoded { tree: Arc::new(tree), predefined };
        self.done.insert(datatype, decoded.clone());
        Ok(decoded)
    }

    fn fresh(&mut self, datatype: TypeHandle, depth: usize) -> Result<(Datatype, bool), HostError> {
        if depth == 0 || self.left == 0 {
            return Err(HostError::View(pario_view::Error::TooDeep));
        }
        if self.host.named.get(datatype).is_some() {
            return Ok((self.named(datatype)?, true));
        }
        let envelope = self.host.envelope(datatype)?;
        if envelope.combiner == self.host.constants.combiner.named {
            return Ok((self.named(datatype)?, true));
        }
        self.left -= 1;
        let contents = self.host.contents(datatype, &envelope)?;
        let children = self.children(&contents.types, depth - 1)?;
        let (lb, extent) = self.host.extents(datatype)?;
        let shape = self.shape(datatype, envelope.combiner, &contents, &children)?;
        Ok((Datatype { lb, extent, shape }, self.host.is_predefined(envelope.combiner)))
    }

    /// A predefined type with its file size.
    fn named(&mut self, datatype: TypeHandle) -> Result<Datatype, HostError> {
        let mut named = self.host.named_type(datatype)?;
        if let Some(size_of) = self.size_of.as_mut() {
            let size = size_of(datatype);
            match &mut named.shape {
                Shape::Basic(basic) => basic.external = size,
                // A pair is one predefined type; the size is that of the whole pair.
                Shape::Pair(first, second, _) => first.external = size.saturating_sub(second.external),
                _ => {}
            }
        }
        Ok(named)
    }

    /// Decodes children and records the handles to return. Every occurrence is a reference of its own.
    fn children(&mut self, types: &[TypeHandle], depth: usize) -> Result<Vec<Arc<Datatype>>, HostError> {
        let mut trees = Vec::with_capacity(types.len());
        let mut result = Ok(());
        for &child in types {
            let decoded = match result {
                Ok(()) => self.node(child, depth),
                Err(error) => Err(error),
            };
            let predefined = match decoded {
                Ok(child) => {
                    trees.push(child.tree);
                    child.predefined
                }
                Err(error) => {
                    result = Err(error);
                    // In doubt, leaking a reference is better than returning it twice.
                    self.host.is_named(child).unwrap_or(true)
                }
            };
            if !predefined {
                self.give_back(child);
            }
        }
        result.map(|()| trees)
    }

    /// Frees a handle that the host returned, now or after the whole tree is decoded.
    fn give_back(&mut self, child: TypeHandle) {
        self.borrowed.push(child);
        if self.host.family() == AbiFamily::OpenMpi {
            self.done.remove(&child);
            self.free_borrowed();
        }
    }

    fn free_borrowed(&mut self) {
        for child in self.borrowed.drain(..) {
            // A child that cannot be freed is a bug of the host. At worst one handle leaks.
            let _ = self.host.type_free(child);
        }
    }

    fn shape(
        &self,
        datatype: TypeHandle,
        combiner: c_int,
        contents: &Contents,
        children: &[Arc<Datatype>],
    ) -> Result<Shape, HostError> {
        let c = &self.host.constants.combiner;
        let mut n = contents.sequence();
        if [c.f90_real, c.f90_complex, c.f90_integer].contains(&combiner) {
            return self.f90(datatype, combiner, &mut n);
        }
        if combiner == c.struct_ || combiner == c.struct_integer {
            let count = n.count()?;
            let blocks = n.blocks(count)?;
            if blocks.len() != children.len() {
                return Err(SHORT);
            }
            let fields = blocks.into_iter().zip(children).map(|((len, at), child)| (len, at, child.clone()));
            return Ok(Shape::Struct { fields: fields.collect() });
        }
        if combiner == c.value_index {
            return self.value_index(datatype, children);
        }
        let [child] = children else { return Err(HostError::Combiner(combiner)) };
        let child = child.clone();
        Ok(match combiner {
            k if k == c.dup => Shape::Dup(child),
            k if k == c.contiguous => Shape::Contiguous { count: n.count()?, child },
            k if k == c.vector => {
                Shape::Vector { count: n.count()?, blocklen: n.count()?, stride: n.signed()?, child }
            }
            k if k == c.hvector || k == c.hvector_integer => {
                Shape::Hvector { count: n.count()?, blocklen: n.count()?, stride: n.signed()?, child }
            }
            k if k == c.indexed => {
                let count = n.count()?;
                Shape::Indexed { blocks: n.blocks(count)?, child }
            }
            k if k == c.hindexed || k == c.hindexed_integer => {
                let count = n.count()?;
                Shape::Hindexed { blocks: n.blocks(count)?, child }
            }
            k if k == c.indexed_block => {
                let count = n.count()?;
                Shape::IndexedBlock { blocklen: n.count()?, disps: n.signeds(count)?, child }
            }
            k if k == c.hindexed_block => {
                let count = n.count()?;
                Shape::HindexedBlock { blocklen: n.count()?, disps: n.signeds(count)?, child }
            }
            k if k == c.subarray => self.subarray(contents, child)?,
            k if k == c.darray => self.darray(contents, child)?,
            k if k == c.resized => Shape::Resized { lb: n.signed()?, extent: n.signed()?, child },
            other => return Err(HostError::Combiner(other)),
        })
    }

    fn f90(&self, datatype: TypeHandle, combiner: c_int, n: &mut Numbers) -> Result<Shape, HostError> {
        let c = &self.host.constants.combiner;
        let native = u32::try_from(self.host.type_size(datatype)?).map_err(|_| SHORT)?;
        let (kind, external) = if combiner == c.f90_integer {
            (Kind::Signed, named::f90_integer(n.signed()?))
        } else {
            let real = named::f90_real(n.signed()?, n.signed()?);
            if combiner == c.f90_real {
                (Kind::Float, real)
            } else {
                (Kind::Complex, real.map(|size| 2 * size))
            }
        };
        // The standard leaves the external size undefined here, so the native size is used.
        Ok(Shape::Basic(Basic { kind, native, external: external.unwrap_or(native) }))
    }

    /// A value and an index of any types (MPI-4.1): the C struct of both.
    fn value_index(&self, datatype: TypeHandle, children: &[Arc<Datatype>]) -> Result<Shape, HostError> {
        let [value, index] = children else { return Err(SHORT) };
        let (&Shape::Basic(value), &Shape::Basic(index)) = (&value.shape, &index.shape) else {
            return Err(HostError::Contents("a value-index pair of derived types"));
        };
        let (lb, extent) = self.host.true_extents(datatype)?;
        Ok(Shape::Pair(value, index, lb + extent - i64::from(index.native)))
    }

    fn subarray(&self, contents: &Contents, child: Arc<Datatype>) -> Result<Shape, HostError> {
        let (mut ints, counts) = contents.arrays();
        let dims = ints.count()?;
        let [sizes, subsizes, starts] = match counts {
            Some(mut n) => [n.counts(dims)?, n.counts(dims)?, n.counts(dims)?],
            None => [ints.counts(dims)?, ints.counts(dims)?, ints.counts(dims)?],
        };
        let order = self.order(ints.signed()?)?;
        Ok(Shape::Subarray { sizes, subsizes, starts, order, child })
    }

    fn darray(&self, contents: &Contents, child: Arc<Datatype>) -> Result<Shape, HostError> {
        let (mut ints, counts) = contents.arrays();
        let (size, rank, dims) = (ints.count()?, ints.count()?, ints.count()?);
        let gsizes = match counts {
            Some(mut counts) => counts.counts(dims),
            None => ints.counts(dims),
        }?;
        let distribs: Result<_, _> = ints.signeds(dims)?.into_iter().map(|d| self.distribution(d)).collect();
        let dargs: Result<_, _> = ints.signeds(dims)?.into_iter().map(|d| self.argument(d)).collect();
        let psizes = ints.counts(dims)?;
        let order = self.order(ints.signed()?)?;
        Ok(Shape::Darray { size, rank, gsizes, distribs: distribs?, dargs: dargs?, psizes, order, child })
    }

    fn order(&self, value: i64) -> Result<Order, HostError> {
        let n = &self.host.constants.number;
        match value {
            v if v == n.order_c => Ok(Order::C),
            v if v == n.order_fortran => Ok(Order::Fortran),
            _ => Err(HostError::Contents("an unknown array order")),
        }
    }

    fn distribution(&self, value: i64) -> Result<Distrib, HostError> {
        let n = &self.host.constants.number;
        match value {
            v if v == n.distribute_block => Ok(Distrib::Block),
            v if v == n.distribute_cyclic => Ok(Distrib::Cyclic),
            v if v == n.distribute_none => Ok(Distrib::None),
            _ => Err(HostError::Contents("an unknown distribution")),
        }
    }

    fn argument(&self, value: i64) -> Result<DistArg, HostError> {
        if value == self.host.constants.number.distribute_dflt_darg {
            return Ok(DistArg::Default);
        }
        u64::try_from(value).map(DistArg::Given).map_err(|_| NEGATIVE)
    }
}

impl Drop for Decoder<'_, '_> {
    fn drop(&mut self) {
        self.free_borrowed();
    }
}
