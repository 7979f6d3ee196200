//! What fields of many requests have in common: presence, enums, lengths, pages.

use std::collections::BTreeMap;

use crate::domain::error::InvalidField;
use crate::domain::key::check_text;
use crate::domain::limits;
use crate::domain::record::RequestId;

/// Entries of a page whose size is not given.
const PAGE_DEFAULT: u32 = 100;
/// Entries of the largest page.
const PAGE_MAX: u32 = 1000;

/// A message that must be there.
pub(in crate::transport::grpc) fn required<T>(
    field: &str,
    value: Option<T>,
) -> Result<T, InvalidField> {
    value.ok_or_else(|| InvalidField::new(field, "is required"))
}

/// An enum's value; a number that this version does not know is refused, never guessed at.
pub(super) fn known<E: TryFrom<i32>>(field: &str, number: i32) -> Result<E, InvalidField> {
    E::try_from(number)
        .map_err(|_unknown| InvalidField::new(field, format!("{number} is not a known value")))
}

/// A note or a reason: text for people, in which lines and tabs may stand.
pub(super) fn note(field: &str, text: String, min: usize) -> Result<String, InvalidField> {
    let length = text.len();
    if length < min || length > limits::NOTE_BYTES_MAX {
        let max = limits::NOTE_BYTES_MAX;
        let problem = format!("must be {min}..={max} bytes, is {length}");
        return Err(InvalidField::new(field, problem));
    }
    if text
        .chars()
        .any(|c| c.is_control() && !matches!(c, '\n' | '\t' | '\r'))
    {
        let problem = "must not contain control characters other than line ends and tabs";
        return Err(InvalidField::new(field, problem));
    }
    if min > 0 && text.chars().all(char::is_whitespace) {
        return Err(InvalidField::new(field, "must not be blank"));
    }
    Ok(text)
}

/// 16 random bytes; none: the server makes them.
pub(super) fn request_id(bytes: &[u8]) -> Result<Option<RequestId>, InvalidField> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let bytes = <[u8; 16]>::try_from(bytes).map_err(|_wrong_length| {
        InvalidField::new(
            "request_id",
            format!("must be 16 bytes, is {}", bytes.len()),
        )
    })?;
    if bytes == [0; 16] {
        // Whoever forgot to draw one would share it with everybody else who did.
        return Err(InvalidField::new(
            "request_id",
            "must be random, is all zero",
        ));
    }
    Ok(Some(RequestId::from_bytes(bytes)))
}

/// Names and values for support.
pub(super) fn attributes(
    given: BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, InvalidField> {
    let (count, max) = (given.len(), limits::ATTRIBUTES_MAX);
    if count > max {
        let problem = format!("must be 0..={max} entries, is {count}");
        return Err(InvalidField::new("attributes", problem));
    }
    for (name, value) in &given {
        // Not named further: a name or value may be personal.
        check_text("attributes", name, 1, limits::ATTRIBUTE_BYTES_MAX)?;
        check_text("attributes", value, 0, limits::ATTRIBUTE_BYTES_MAX)?;
    }
    Ok(given)
}

/// How many entries a page has.
pub(in crate::transport::grpc) fn page(size: i32) -> Result<u32, InvalidField> {
    let size = u32::try_from(size)
        .map_err(|_negative| InvalidField::new("page_size", "must not be negative"))?;
    Ok(if size == 0 {
        PAGE_DEFAULT
    } else {
        size.min(PAGE_MAX)
    })
}
