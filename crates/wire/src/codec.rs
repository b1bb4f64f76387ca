//! The encoding of fields.
//!
//! Numbers are little-endian. Strings and lists begin with their length (`u32`), options with a byte 0 or 1.
//! Each value has exactly one encoding, so a decoded value encodes to the same bytes again. A list's length is checked
//! against the bytes that are left before memory is allocated for it.

use pario_types::{ClientId, Epoch, FileId, PartitionId, RequestId, ServerId, Stamp, TruncationId};

use crate::error::Error;

/// A type that can be part of a message.
pub(crate) trait Field: Sized {
    /// The smallest number of bytes of a value; at least 1 for elements of lists.
    const LEAST: usize;

    /// Appends the value.
    fn put(&self, out: &mut Vec<u8>);

    /// Decodes a value and removes its bytes from the front.
    fn take(from: &mut Reader<'_>) -> Result<Self, Error>;
}

/// The bytes of a message that are not decoded yet.
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    /// The next `len` bytes.
    pub(crate) fn bytes(&mut self, len: usize) -> Result<&'a [u8], Error> {
        let (front, rest) = self.rest.split_at_checked(len).ok_or(Error::Truncated)?;
        self.rest = rest;
        Ok(front)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let (front, rest) = self.rest.split_first_chunk().ok_or(Error::Truncated)?;
        self.rest = rest;
        Ok(*front)
    }

    /// Checks that no bytes are left.
    pub(crate) fn end(self) -> Result<(), Error> {
        if self.rest.is_empty() { Ok(()) } else { Err(Error::Trailing) }
    }

    /// Decodes the length of a list or string whose elements have at least `least` bytes each.
    fn length(&mut self, least: usize) -> Result<usize, Error> {
        let length = u32::take(self)? as usize;
        if length > self.rest.len() / least { Err(Error::Truncated) } else { Ok(length) }
    }
}

macro_rules! numbers {
    ($($type:ty),*) => {$(
        impl Field for $type {
            const LEAST: usize = size_of::<$type>();

            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }

            fn take(from: &mut Reader<'_>) -> Result<Self, Error> {
                from.array().map(<$type>::from_le_bytes)
            }
        }
    )*};
}

numbers!(u8, u16, u32, u64, u128, i32, i64);

macro_rules! wrappers {
    ($($name:ident($inner:ty)),*) => {$(
        impl Field for $name {
            const LEAST: usize = <$inner>::LEAST;

            fn put(&self, out: &mut Vec<u8>) {
                self.0.put(out);
            }

            fn take(from: &mut Reader<'_>) -> Result<Self, Error> {
                Field::take(from).map($name)
            }
        }
    )*};
}

wrappers!(
    FileId(u64),
    ServerId(u16),
    PartitionId(u128),
    ClientId(u128),
    RequestId(u64),
    TruncationId(u64),
    Epoch(u64),
    Stamp(i64)
);

impl Field for bool {
    const LEAST: usize = 1;

    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Error> {
        match u8::take(from)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Error::BadField("truth value")),
        }
    }
}

impl<const N: usize> Field for [u8; N] {
    const LEAST: usize = N;

    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Error> {
        from.array()
    }
}

impl<const N: usize> Field for [u64; N] {
    const LEAST: usize = 8 * N;

    fn put(&self, out: &mut Vec<u8>) {
        self.iter().for_each(|number| number.put(out));
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Error> {
        let mut numbers = [0; N];
        for number in &mut numbers {
            *number = u64::take(from)?;
        }
        Ok(numbers)
    }
}

impl Field for String {
    const LEAST: usize = 4;

    fn put(&self, out: &mut Vec<u8>) {
        // If the length does not fit, the body is too large, and is refused for that.
        (self.len() as u32).put(out);
        out.extend_from_slice(self.as_bytes());
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Error> {
        let length = from.length(1)?;
        let text = std::str::from_utf8(from.bytes(length)?).map_err(|_| Error::BadField("text"))?;
        Ok(text.to_owned())
    }
}

impl<T: Field> Field for Vec<T> {
    const LEAST: usize = 4;

    fn put(&self, out: &mut Vec<u8>) {
        (self.len() as u32).put(out);
        self.iter().for_each(|member| member.put(out));
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Error> {
        let length = from.length(T::LEAST)?;
        let mut list = Vec::with_capacity(length);
        for _ in 0..length {
            list.push(T::take(from)?);
        }
        Ok(list)
    }
}

impl<T: Field> Field for Option<T> {
    const LEAST: usize = 1;

    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        self.iter().for_each(|value| value.put(out));
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Error> {
        if bool::take(from)? { T::take(from).map(Some) } else { Ok(None) }
    }
}

impl<T: Field> Field for Box<T> {
    const LEAST: usize = T::LEAST;

    fn put(&self, out: &mut Vec<u8>) {
        T::put(self, out);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Error> {
        T::take(from).map(Box::new)
    }
}

/// A struct is encoded as its fields, in the order given here.
macro_rules! records {
    ($($name:ident { $($field:ident: $type:ty),+ $(,)? })*) => {$(
        impl $crate::codec::Field for $name {
            const LEAST: usize = 0 $(+ <$type as $crate::codec::Field>::LEAST)+;

            fn put(&self, out: &mut Vec<u8>) {
                $(self.$field.put(out);)+
            }

            fn take(from: &mut $crate::codec::Reader<'_>) -> Result<Self, $crate::Error> {
                $(let $field = <$type as $crate::codec::Field>::take(from)?;)+
                Ok($name { $($field),+ })
            }
        }
    )*};
}

/// An enum without fields is encoded as one byte.
macro_rules! numbered {
    ($($name:ident { $($number:literal => $variant:ident),+ $(,)? })*) => {$(
        impl $crate::codec::Field for $name {
            const LEAST: usize = 1;

            fn put(&self, out: &mut Vec<u8>) {
                out.push(match self { $($name::$variant => $number),+ });
            }

            fn take(from: &mut $crate::codec::Reader<'_>) -> Result<Self, $crate::Error> {
                match <u8 as $crate::codec::Field>::take(from)? {
                    $($number => Ok($name::$variant),)+
                    _ => Err($crate::Error::BadField(stringify!($name))),
                }
            }
        }
    )*};
}

pub(crate) use {numbered, records};

#[cfg(test)]
mod tests {
    use super::*;

    fn decode<T: Field>(bytes: &[u8]) -> Result<T, Error> {
        let mut from = Reader::new(bytes);
        let value = T::take(&mut from)?;
        from.end().map(|()| value)
    }

    #[test]
    fn a_length_beyond_the_message_allocates_no_memory() {
        let huge = [0xff; 12];
        assert_eq!(decode::<Vec<u64>>(&huge), Err(Error::Truncated));
        assert_eq!(decode::<String>(&huge), Err(Error::Truncated));
        // Two elements need 16 bytes, and there are 8.
        assert_eq!(decode::<Vec<u64>>(&[2, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]), Err(Error::Truncated));
    }

    #[test]
    fn each_value_has_one_encoding() {
        assert_eq!(decode::<bool>(&[2]), Err(Error::BadField("truth value")));
        assert_eq!(decode::<Option<u8>>(&[0, 7]), Err(Error::Trailing));
        assert_eq!(decode::<Option<u8>>(&[1, 7]), Ok(Some(7)));
        assert_eq!(decode::<String>(&[1, 0, 0, 0, 0xff]), Err(Error::BadField("text")));
        assert_eq!(decode::<u32>(&[1, 2, 3]), Err(Error::Truncated));
    }
}
