//! Bytes of the element types of safetensors, as f32.

use half::{bf16, f16};

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
        "F16" => elements::<2>(bytes).map(|bytes| f16::from_le_bytes(bytes).to_f32()).collect(),
        "BF16" => elements::<2>(bytes).map(|bytes| bf16::from_le_bytes(bytes).to_f32()).collect(),
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

#[cfg(test)]
mod tests {
    use super::to_f32;

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
            assert_eq!(to_f32("F16", &bits.to_le_bytes()), [expected], "{bits:#06x}");
        }
        assert!(to_f32("F16", &0x7e00_u16.to_le_bytes())[0].is_nan());
        assert_eq!(to_f32("BF16", &[0x80, 0x3f, 0x40, 0xc0]), [1.0, -3.0]);
        assert_eq!(to_f32("F64", &0.5_f64.to_le_bytes()), [0.5]);
    }
}
