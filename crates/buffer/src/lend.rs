//! Buffers over memory of Pario, and buffers with another pattern for the same memory.

use pario_view::Pattern;

use crate::UserBuffer;

/// Calls `f` with a slice as a buffer. `f` cannot keep the buffer, because a buffer cannot be copied.
pub fn lend<R>(bytes: &mut [u8], f: impl FnOnce(&UserBuffer) -> R) -> R {
    // SAFETY: the slice is exclusively borrowed during `f`, which gets the buffer by reference only.
    let buffer = unsafe { UserBuffer::new(bytes.as_mut_ptr(), Pattern::block(bytes.len() as u64), 1) };
    f(&buffer)
}

impl UserBuffer {
    /// A buffer over memory that nothing else uses.
    pub fn of(memory: &'static mut [u8]) -> UserBuffer {
        let pattern = Pattern::block(memory.len() as u64);
        // SAFETY: the memory is valid for the whole run of the program and was borrowed exclusively.
        unsafe { UserBuffer::new(memory.as_mut_ptr(), pattern, 1) }
    }

    /// The same memory with another pattern of the same datatype, such as one that keeps basic types.
    /// Returns `None` if the pattern has another size or reaches beyond the memory of this buffer.
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
