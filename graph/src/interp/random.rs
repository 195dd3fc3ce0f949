//! Counter-based random bits (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).

use crate::interp::elems::{decode_int, literal};
use crate::literal::Literal;
use crate::types::TensorType;

/// Two words of Threefry-2x32 with 20 rounds.
pub fn threefry2x32(key: [u32; 2], counter: [u32; 2]) -> [u32; 2] {
    const ROTATIONS: [u32; 8] = [13, 15, 26, 6, 17, 29, 16, 24];
    const PARITY: u32 = 0x1bd1_1bda;
    let keys = [key[0], key[1], key[0] ^ key[1] ^ PARITY];
    let [mut x, mut y] = [counter[0].wrapping_add(keys[0]), counter[1].wrapping_add(keys[1])];
    for round in 0..20 {
        x = x.wrapping_add(y);
        y = y.rotate_left(ROTATIONS[round % 8]) ^ x;
        if round % 4 == 3 {
            let injection = round / 4 + 1;
            x = x.wrapping_add(keys[injection % 3]);
            y = y.wrapping_add(keys[(injection + 1) % 3]).wrapping_add(injection as u32);
        }
    }
    [x, y]
}

/// Element i is word i mod 2 of the block of counter `stream * 2^40 + i / 2`; words of key and counter are low first.
pub(super) fn random_bits(key: &Literal, stream: u32, out: &TensorType) -> Literal {
    let words = |v: u64| [v as u32, (v >> 32) as u32];
    let key = words(decode_int(key).first().map_or(0, |&k| k as u64));
    let mut bytes = Vec::with_capacity(out.byte_size());
    for block in 0..(out.numel() as u64).div_ceil(2) {
        let counter = (u64::from(stream) << 40).wrapping_add(block);
        for word in threefry2x32(key, words(counter)) {
            bytes.extend(word.to_le_bytes());
        }
    }
    bytes.truncate(out.byte_size());
    literal(out, bytes)
}
