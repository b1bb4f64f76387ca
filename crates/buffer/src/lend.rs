//! Buffers made of Pario's own memory, and buffers described anew.

use pario_view::Pattern;

use crate::UserBuffer;

/// Lets `f` use a slice as a buffer. It cannot be kept beyond `f`: a buffer cannot be copied.
pub fn lend<R>(bytes: &mut [u8], f: impl FnOnce(&UserBuffer) -> R) -> R {
    // SAFETY: the slice is exclusively ours for the time of `f`, which cannot keep what it gets by reference.
    let buffer = unsafe { UserBuffer::new(bytes.as_mut_ptr(), Pattern::block(bytes.len() as u64), 1) };
    f(&buffer)
}

impl UserBuffer {
    /// A buffer of memory that nobody else will ever use.
    pub fn of(memory: &'static mut [u8]) -> UserBuffer {
        let pattern = Pattern::block(memory.len() as u64);
        // SAFETY: the memory is valid for ever and was exclusively the caller's.
        unsafe { UserBuffer::new(memory.as_mut_ptr(), pattern, 1) }
    }

    /// The same memory under another description of the same datatype: one that keeps basic types, say.
    /// `None` if the description is of another size or reaches beyond the memory of this one.
    pub fn described_by(self, pattern: &Pattern) -> Option<UserBuffer> {
        let facts = |p: &Pattern| (p.size(), p.true_lb(), p.true_ub(), p.extent());
        (facts(pattern) == facts(self.pattern())).then(|| self.with_pattern(pattern.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_serves_as_buffer() {
        let mut bytes = *b"hello";
        let mut out = [0; 3];
        lend(&mut bytes, |buffer| {
            assert_eq!(buffer.len(), 5);
            buffer.pack(1, &mut out);
            buffer.unpack(0, b"J");
        });
        assert_eq!((&out, &bytes), (b"ell", b"Jello"));
    }

    #[test]
    fn only_an_equal_description_is_taken() {
        let mut bytes = [0; 8];
        // SAFETY: the bytes outlive both buffers.
        let buffer = |bytes: &mut [u8]| unsafe { UserBuffer::new(bytes.as_mut_ptr(), Pattern::block(8), 1) };
        assert!(buffer(&mut bytes).described_by(&Pattern::block(8)).is_some());
        assert!(buffer(&mut bytes).described_by(&Pattern::block(9)).is_none());
    }
}
