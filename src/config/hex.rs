//! Hexadecimal digits as bytes.

/// Reads exactly `N` bytes, two digits each; `None` for anything else.
pub fn read<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    if text.len() != 2 * N || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_the_right_number_of_digits_is_read() {
        assert_eq!(read("00fF"), Some([0, 255]));
        for text in ["", "00f", "00ff0", "+0ff", "0xff", "00 f", "å0f"] {
            assert_eq!(read::<2>(text), None, "{text}");
        }
    }
}
