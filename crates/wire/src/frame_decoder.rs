//! Assembles heads and bodies of frames from received bytes.
//!
//! The owner reads into [`FrameDecoder::space`] and reports how many bytes it read. The space ends where the body ends, so it never
//! takes bytes of a payload: these can go from the socket directly to their destination.

use crate::error::Error;
use crate::frame::{HEAD, Head};

/// The largest number of bytes that an idle decoder keeps.
const MAX_KEPT: usize = 64 << 10;

/// A frame that is being received.
#[derive(Debug, Default)]
pub struct FrameDecoder {
    head: [u8; HEAD],
    body: Vec<u8>,
    stage: Stage,
    filled: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Head,
    Body(Head),
    Complete,
}

impl FrameDecoder {
    /// A decoder before the first byte.
    pub fn new() -> FrameDecoder {
        FrameDecoder::default()
    }

    /// The buffer for the next bytes; never empty. After a complete frame the next one begins.
    pub fn space(&mut self) -> &mut [u8] {
        if self.stage == Stage::Complete {
            self.stage = Stage::Head;
            self.filled = 0;
            self.body.clear();
            self.body.shrink_to(MAX_KEPT);
        }
        match self.stage {
            Stage::Body(_) => &mut self.body[self.filled..],
            _ => &mut self.head[self.filled..],
        }
    }

    /// Reports how many bytes were read into the space. Returns the head when head and body are complete; the payload follows.
    pub fn advance(&mut self, read: usize) -> Result<Option<Head>, Error> {
        self.filled += read;
        match self.stage {
            Stage::Head if self.filled == HEAD => {
                let head = Head::decode(&self.head)?;
                self.filled = 0;
                self.body.resize(head.body as usize, 0);
                self.stage = if head.body == 0 { Stage::Complete } else { Stage::Body(head) };
                Ok((head.body == 0).then_some(head))
            }
            Stage::Body(head) if self.filled == self.body.len() => {
                self.stage = Stage::Complete;
                Ok(Some(head))
            }
            _ => Ok(None),
        }
    }

    /// The body of the complete frame.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// Whether a frame has begun and is not complete.
    pub fn is_midway(&self) -> bool {
        self.stage != Stage::Complete && (self.filled > 0 || self.stage != Stage::Head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Envelope, encode_request};
    use crate::message::Request;
    use pario_types::{FileId, RequestId, ServerId};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn frames_are_assembled_from_pieces_of_any_size(
            sizes in prop::collection::vec(0usize..200, 1..6),
            cuts in prop::collection::vec(1usize..50, 1..20),
        ) {
            let (mut bytes, mut sent) = (Vec::new(), Vec::new());
            for (id, n) in (1..).map(RequestId).zip(sizes) {
                let envelope = Envelope::new(ServerId(0), id);
                let request = match n % 3 {
                    0 => Request::Ping,
                    _ => Request::RemoveParts { files: (0..n as u64).map(FileId).collect() },
                };
                encode_request(&mut bytes, envelope, &request).expect("small");
                sent.push((envelope, request));
            }
            let (mut decoder, mut got, mut rest) = (FrameDecoder::new(), Vec::new(), &bytes[..]);
            let mut cuts = cuts.into_iter().cycle();
            let mut since = 0;
            while !rest.is_empty() {
                let space = decoder.space();
                let n = space.len().min(rest.len()).min(cuts.next().expect("endless"));
                space[..n].copy_from_slice(&rest[..n]);
                rest = &rest[n..];
                since += n;
                if let Some(head) = decoder.advance(n).expect("sound") {
                    got.push(head.request(decoder.body()).expect("sound"));
                    since = 0;
                }
                prop_assert_eq!(decoder.is_midway(), since > 0);
            }
            prop_assert_eq!(got, sent);
        }
    }
}
