//! Bytes of the element types of safetensors, as f32.

/// Bytes of an element of this type, if it is one that is read.
pub(super) fn element_bytes(dtype: &str) -> Option<usize> {
    match dtype {
        "F64" => Some(8),
        "F32" => Some(4),
        "F16" | "BF16" => Some(2),
        _ => None,
    }
}

/// Little-endian elements as f32; those of an unknown type are none.
pub(super) fn to_f32(dtype: &str, bytes: &[u8]) -> Vec<f32> {
    match dtype {
        "F64" => elements::<8>(bytes).map(|bytes| f64::from_le_bytes(bytes) as f32).collect(),
        "F32" => elements::<4>(bytes).map(f32::from_le_bytes).collect(),
        "F16" => elements::<2>(bytes).map(|bytes| from_f16(u16::from_le_bytes(bytes))).collect(),
        "BF16" => elements::<2>(bytes)
            .map(|bytes| f32::from_bits(u32::from(u16::from_le_bytes(bytes)) << 16))
            .collect(),
        _ => Vec::new(),
    }
}

fn elements<const N: usize>(bytes: &[u8]) -> impl Iterator<Item = [u8; N]> {
    bytes.chunks_exact(N).map(|chunk| {
        let mut element = [0; N];
        element.copy_from_slice(chunk);
        element
    })
}

/// IEEE 754 binary16 to binary32, exactly.
fn from_f16(bits: u16) -> f32 {
    let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
    let exponent = i32::from((bits >> 10) & 0x1f);
    let fraction = f32::from(bits & 0x3ff);
    let magnitude = match exponent {
        0 => fraction * 2.0_f32.powi(-24),
        31 if fraction == 0.0 => f32::INFINITY,
        31 => f32::NAN,
        _ => (1024.0 + fraction) * 2.0_f32.powi(exponent - 25),
    };
    sign * magnitude
}

#[cfg(test)]
mod tests {
    use super::{from_f16, to_f32};

    #[test]
    fn halves_are_read_exactly() {
        let cases: [(u16, f32); 7] = [
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x3555, 0.333_251_95),
            (0x7bff, 65_504.0),
            (0x0001, 5.960_464_5e-8),
            (0x0400, 6.103_515_6e-5),
            (0x7c00, f32::INFINITY),
        ];
        for (bits, expected) in cases {
            assert_eq!(from_f16(bits), expected, "{bits:#06x}");
        }
        assert!(from_f16(0x7e00).is_nan());
        assert_eq!(to_f32("BF16", &[0x80, 0x3f, 0x40, 0xc0]), [1.0, -3.0]);
        assert_eq!(to_f32("F64", &0.5_f64.to_le_bytes()), [0.5]);
    }
}
