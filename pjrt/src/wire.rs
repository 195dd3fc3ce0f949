//! The few pieces of the protobuf wire format this crate needs.

/// Appends a varint.
pub(crate) fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        #[allow(clippy::cast_possible_truncation, reason = "the low seven bits are meant")]
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    #[allow(clippy::cast_possible_truncation, reason = "below 0x80")]
    out.push(value as u8);
}

/// Appends an integer or bool field.
pub(crate) fn integer(out: &mut Vec<u8>, field: u32, value: i64) {
    varint(out, u64::from(field) << 3);
    varint(out, value.cast_unsigned());
}

/// Appends a double field.
pub(crate) fn double(out: &mut Vec<u8>, field: u32, value: f64) {
    varint(out, (u64::from(field) << 3) | 1);
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends a string, bytes or message field.
pub(crate) fn bytes(out: &mut Vec<u8>, field: u32, value: &[u8]) {
    varint(out, (u64::from(field) << 3) | 2);
    varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

fn read_varint(data: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = data.split_first()?;
        *data = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// The last value of a length-delimited top-level field; `None` if absent or if the message is malformed.
pub(crate) fn find_bytes(mut data: &[u8], field: u64) -> Option<&[u8]> {
    let mut found = None;
    while !data.is_empty() {
        let key = read_varint(&mut data)?;
        let skip = match key & 7 {
            0 => {
                read_varint(&mut data)?;
                0
            }
            1 => 8,
            2 => usize::try_from(read_varint(&mut data)?).ok()?,
            5 => 4,
            _ => return None,
        };
        let (value, rest) = data.split_at_checked(skip)?;
        data = rest;
        if key >> 3 == field && key & 7 == 2 {
            found = Some(value);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_again() {
        let mut message = Vec::new();
        integer(&mut message, 2, -1);
        double(&mut message, 3, 1.5);
        bytes(&mut message, 1, b"abc");
        assert_eq!(find_bytes(&message, 1), Some(&b"abc"[..]));
        assert_eq!(find_bytes(&message, 4), None);
        assert_eq!(find_bytes(&message[..message.len() - 1], 1), None);
    }
}
