//! The numbers of requests and replies, the order of their fields, and their payloads.
//! A change here is a new version of the protocol.

use crate::codec::{Field, Reader};
use crate::error::Error;
use crate::frame::MAX_PAYLOAD;
use crate::message::{ByteSelection, Reply, Request};

macro_rules! messages {
    ($name:ident $decode:ident {
        $($number:literal => $variant:ident $({ $($field:ident),+ })? $(($inner:ident))?,)+
    }) => {
        impl $name {
            /// The number and name of every variant.
            pub const KINDS: &[(u16, &str)] = &[$(($number, stringify!($variant))),+];

            /// The number of this message in frames.
            pub fn kind(&self) -> u16 {
                match self { $($name::$variant { .. } => $number),+ }
            }

            /// The name of this message.
            pub fn name(&self) -> &'static str {
                match self { $($name::$variant { .. } => stringify!($variant)),+ }
            }

            /// Appends the body.
            pub(crate) fn put(&self, out: &mut Vec<u8>) {
                match self {
                    $($name::$variant $({ $($field),+ })? $(($inner))? => {
                        $($($field.put(out);)+)?
                        $($inner.put(out);)?
                    })+
                }
            }
        }

        #[doc = concat!("The ", stringify!($name), " of this number with this body.")]
        pub fn $decode(kind: u16, body: &[u8]) -> Result<$name, Error> {
            let mut from = Reader::new(body);
            let message = match kind {
                $($number => {
                    $($(let $field = Field::take(&mut from)?;)+)?
                    $(let $inner = Field::take(&mut from)?;)?
                    $name::$variant $({ $($field),+ })? $(($inner))?
                })+
                _ => return Err(Error::UnknownKind(kind)),
            };
            from.end().map(|()| message)
        }
    };
}

messages! { Request decode_request {
    1 => Acquire { file, intent, blocks, ahead },
    2 => Read { file, what },
    3 => Write { file, what },
    4 => End { file },
    5 => Truncate { file, end, truncation },
    6 => Sync { file, durable },
    7 => RemoveParts { files },
    8 => ListParts { after, most },
    9 => VerifyBlocks { file, from, most },
    10 => AcceptBlocks { file, blocks },
    11 => Lock { file, range, exclusive },
    12 => Unlock { lock },
    13 => JoinTeam { team, mailbox },
    14 => Lease { team, file, ranges },
    15 => PollRecalls { team, anew, wait_ms },
    16 => Yield { number, gone },
    17 => ReleaseLeases { team, file },
    18 => CloseMailbox,
    19 => Arrange { file, ranges },
    20 => Fence { file, truncation },
    32 => Ping,
    33 => StorageSpace,
    34 => Status,
    35 => Shutdown,
    36 => SetServers { set },
    40 => PutView { hash, len },
    41 => Counter { key, change },
    50 => Prefetch { file, ranges },
    51 => CancelPrefetch { file, ranges },
    52 => TryLock { file, ranges, exclusive },
    53 => MarkDivergent { lock },
    54 => ListDivergent { file },
    55 => Disconnect { client },
    56 => MarkEqual { file, losses },
    64 => Lookup { path },
    65 => Open { path, access, create, mode, layout_request },
    66 => Close { file, wrote },
    67 => Reopen { files, repeated },
    68 => MakeDirectory { path, mode, parents },
    69 => RemoveDirectory { path },
    70 => Unlink { path },
    71 => Rename { from, to, replace },
    72 => ReadDirectory { path, after, most },
    73 => SetAttributes { path, mode, accessed, modified },
    74 => BeginTruncate { file, size },
    75 => EndTruncate { file, truncation },
    76 => ReportSize { file, size, seen },
    77 => ListInodes { after, most },
    78 => PutTable { table },
    79 => GetTable { table },
    80 => AbortTruncate { file, truncation },
}}

messages! { Reply decode_reply {
    1 => Done,
    2 => Failed(failure),
    3 => Slots(slots),
    4 => Data { end },
    5 => End { end },
    6 => Parts { parts, more },
    7 => Verified { damaged, next },
    11 => Locked { lock },
    14 => Leased { extents },
    15 => Recalled { recalls, good_ms },
    33 => StorageSpace(space),
    34 => Status(status),
    40 => NoView,
    41 => Counted { before },
    50 => Prefetched { taken },
    54 => Divergent { ranges, clients, losses, unresolved },
    64 => Attributes(attributes),
    65 => Opened { attributes, created },
    67 => Reopened { gone },
    72 => Entries { entries, more },
    74 => Truncation { truncation },
    77 => Inodes { inodes, more },
    78 => NoTable,
}}

impl ByteSelection {
    /// The number of selected bytes.
    pub fn bytes(&self) -> u64 {
        match self {
            ByteSelection::Ranges(ranges) => {
                ranges.iter().fold(0, |sum, range| sum.saturating_add(range.len))
            }
            ByteSelection::View { bytes, .. } => *bytes,
        }
    }
}

impl Request {
    /// Bytes of payload in the request.
    pub fn payload(&self) -> u64 {
        match self {
            Request::Write { what, .. } => what.bytes(),
            Request::PutView { len, .. } => *len,
            Request::PutTable { table } => u64::from(table.len),
            _ => 0,
        }
    }

    /// Bytes of payload in the reply, unless it is [`Reply::Failed`].
    pub fn reply_payload(&self) -> u64 {
        match self {
            Request::Read { what, .. } => what.bytes(),
            Request::GetTable { table } => u64::from(table.len),
            _ => 0,
        }
    }

    /// Checks that neither payload is too large.
    pub(crate) fn check_payloads(&self) -> Result<(), Error> {
        let sizes = [("payload", self.payload()), ("reply's payload", self.reply_payload())];
        match sizes.into_iter().find(|(_, length)| *length > u64::from(MAX_PAYLOAD)) {
            Some((what, length)) => Err(Error::TooLarge { what, length, limit: u64::from(MAX_PAYLOAD) }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_unique_and_match_names() {
        for kinds in [Request::KINDS, Reply::KINDS] {
            assert!(kinds.is_sorted_by(|a, b| a.0 < b.0), "a number is used twice");
        }
        assert_eq!((Request::Ping.kind(), Request::Ping.name()), (32, "Ping"));
        assert_eq!(decode_request(32, &[]), Ok(Request::Ping));
        assert_eq!(decode_request(32, &[0]), Err(Error::Trailing));
        assert_eq!(decode_request(31, &[]), Err(Error::UnknownKind(31)));
    }
}
