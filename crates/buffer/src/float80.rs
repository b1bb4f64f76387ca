//! Conversion between the x87 extended format (80 bits in 12 or 16 bytes of memory) and IEEE binary128.
//!
//! Both have 15 exponent bits with the same bias. x87 stores the leading 1 of its 64-bit significand.
//! binary128 has 112 fraction bits and an implicit leading 1. The conversion to binary128 is exact. The
//! conversion back rounds to nearest, ties to even. Infinities, zeros and the high bits of NaN payloads are
//! preserved.

const EXPONENT: u16 = 0x7fff;
const LEADING: u64 = 1 << 63;
/// The number of fraction bits that binary128 has in addition to those of x87.
const EXTRA: u32 = 49;
const QUIET_NAN: u128 = (EXPONENT as u128) << 112 | 1 << 111;

/// The binary128 bits of an x87 value (10 bytes, little-endian). Encodings that the processor treats as
/// invalid become a quiet NaN.
pub fn to_quad(x87: [u8; 10]) -> u128 {
    let mut low = [0; 8];
    low.copy_from_slice(&x87[..8]);
    let significand = u64::from_le_bytes(low);
    let top = u16::from_le_bytes([x87[8], x87[9]]);
    let (sign, exponent) = (u128::from(top >> 15) << 127, top & EXPONENT);
    let fraction = u128::from(significand & !LEADING) << EXTRA;
    let leading = significand & LEADING != 0;
    match (exponent, leading) {
        // Exponent 0 has the scale of exponent 1 in both formats. With the leading bit set, the value is
        // that normal number.
        (0, false) => sign | fraction,
        (0, true) => sign | 1 << 112 | fraction,
        (_, true) => sign | u128::from(exponent) << 112 | fraction,
        (_, false) => sign | QUIET_NAN,
    }
}

/// The x87 value nearest to binary128 bits.
pub fn from_quad(quad: u128) -> [u8; 10] {
    let sign = ((quad >> 127) as u16) << 15;
    let exponent = (quad >> 112) as u16 & EXPONENT;
    let fraction = quad & ((1 << 112) - 1);
    let top = (fraction >> EXTRA) as u64;
    if exponent == EXPONENT {
        // A NaN whose payload is only in the discarded bits must not become an infinity.
        let payload = if fraction != 0 && top == 0 { 1 << 62 } else { top };
        return pack(sign | EXPONENT, LEADING | payload);
    }
    let leading = if exponent == 0 { 0 } else { LEADING };
    let cut = fraction & ((1 << EXTRA) - 1);
    let half = 1u128 << (EXTRA - 1);
    let up = cut > half || cut == half && top & 1 == 1;
    let (significand, carried) = (leading | top).overflowing_add(u64::from(up));
    match (exponent, carried) {
        // A significand of all ones rounds up to the next power of two or to infinity.
        (_, true) => pack(sign | (exponent + 1), LEADING),
        // A subnormal number rounds up to the smallest normal number.
        (0, false) if significand & LEADING != 0 => pack(sign | 1, significand),
        _ => pack(sign | exponent, significand),
    }
}

fn pack(top: u16, significand: u64) -> [u8; 10] {
    let mut out = [0; 10];
    out[..8].copy_from_slice(&significand.to_le_bytes());
    out[8..].copy_from_slice(&top.to_le_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn x87(top: u16, significand: u64) -> [u8; 10] {
        pack(top, significand)
    }

    #[test]
    fn known_values_have_known_bits() {
        let cases = [
            (x87(0, 0), 0u128),
            (x87(0x8000, 0), 1 << 127),
            (x87(0x3fff, LEADING), 0x3fff << 112),               // 1
            (x87(0xc000, LEADING | 1 << 62), 0xc000_8000 << 96), // -3
            (x87(0x7fff, LEADING), 0x7fff << 112),               // infinity
            (x87(0x7fff, LEADING | 1 << 62), QUIET_NAN),
            (x87(0, 1), 1 << EXTRA), // the smallest subnormal
            (x87(1, LEADING), 1 << 112),
        ];
        for (native, quad) in cases {
            assert_eq!(to_quad(native), quad, "{native:02x?}");
            assert_eq!(from_quad(quad), native, "{quad:032x}");
        }
        assert_eq!(to_quad(x87(0, LEADING)), 1 << 112, "pseudo-denormal");
        assert_eq!(to_quad(x87(5, 17)), QUIET_NAN, "unnormal");
    }

    #[test]
    fn rounding_is_to_nearest_even() {
        let one = 0x3fffu128 << 112;
        assert_eq!(from_quad(one | 1 << 48), x87(0x3fff, LEADING), "tie to even");
        assert_eq!(from_quad(one | 3 << 48), x87(0x3fff, LEADING | 2), "tie to even, up");
        assert_eq!(from_quad(one | 1 << 48 | 1), x87(0x3fff, LEADING | 1), "above the tie");
        assert_eq!(from_quad((0x4000u128 << 112) - 1), x87(0x4000, LEADING), "carry into the exponent");
        assert_eq!(from_quad((0x7fffu128 << 112) - 1), x87(0x7fff, LEADING), "overflow");
        assert_eq!(from_quad((1u128 << 112) - 1), x87(1, LEADING), "subnormal to normal");
        assert_eq!(from_quad(0x7fffu128 << 112 | 1), x87(0x7fff, LEADING | 1 << 62), "a NaN stays one");
    }

    #[test]
    fn every_valid_x87_value_survives() {
        let mut seed = 0x9e37_79b9_7f4a_7c15u64;
        for i in 0..20_000u32 {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            let exponent = match i % 4 {
                0 => 0,
                1 => 1,
                _ => (seed >> 20) as u16 & EXPONENT,
            };
            let leading = if exponent == 0 { 0 } else { LEADING };
            let value = x87(exponent | (i as u16 & 1) << 15, seed & !LEADING | leading);
            assert_eq!(from_quad(to_quad(value)), value);
        }
    }
}
