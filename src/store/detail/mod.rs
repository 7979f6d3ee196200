//! The message that holds what a record's columns do not. Append only: a field keeps its number and
//! meaning for ever, and a newer `format` is refused rather than half understood.

mod messages;
mod read;
mod write;

use crate::domain::key::RecordKey;
use crate::domain::record::{Fence, Generation, Version};
use crate::domain::time::Timestamp;

pub(super) use messages::Detail;
pub(super) use read::into_record;
pub(super) use write::of;

/// The format that this version writes, and the newest that it reads.
const FORMAT: u32 = 1;

/// What a record's columns hold.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) key: RecordKey,
    pub(super) operation: String,
    pub(super) generation: Generation,
    pub(super) fence: Fence,
    pub(super) version: Version,
    pub(super) first_reserved_at: Timestamp,
    pub(super) payload: Vec<u8>,
}
