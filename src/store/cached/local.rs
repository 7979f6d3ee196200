//! The memory of this process: bounded in bytes, the newest state of a record wins.

use moka::ops::compute::Op;
use moka::sync::Cache;

use super::Entry;
use crate::domain::key::KeyDigest;
use crate::domain::record::{Etag, RecordState};
use crate::port::store::Stands;

/// What one entry takes beside its payload, about.
const ENTRY_BYTES: usize = 1024;

/// The memory.
#[derive(Debug)]
pub(super) struct Local {
    entries: Cache<KeyDigest, Kept>,
}

#[derive(Debug, Clone)]
struct Kept {
    etag: Etag,
    /// `None`: it was completed and is no longer. What was read before is not kept over it.
    entry: Option<Entry>,
}

impl Local {
    pub(super) fn new(bytes_max: u64) -> Self {
        let weigher = |_: &KeyDigest, kept: &Kept| {
            let payload = kept.entry.as_ref().map_or(0, payload_bytes);
            u32::try_from(ENTRY_BYTES + payload).unwrap_or(u32::MAX)
        };
        let builder = Cache::builder().max_capacity(bytes_max).weigher(weigher);
        Self {
            entries: builder.build(),
        }
    }

    pub(super) fn get(&self, digest: &KeyDigest) -> Option<Entry> {
        self.entries.get(digest)?.entry
    }

    /// Keeps what another replica has read.
    pub(super) fn keep(&self, digest: KeyDigest, entry: Entry) {
        let etag = entry.record.etag();
        let entry = Some(entry);
        self.keep_newest(digest, Kept { etag, entry });
    }

    /// Keeps what stands there. A record that is not final is only worth a note where it was
    /// thought to be.
    pub(super) fn put(&self, digest: KeyDigest, stands: &Stands) {
        let entry = Entry::of(stands);
        if entry.is_none() && !self.entries.contains_key(&digest) {
            return;
        }
        let etag = stands.record.etag();
        self.keep_newest(digest, Kept { etag, entry });
    }

    fn keep_newest(&self, digest: KeyDigest, kept: Kept) {
        self.entries.entry(digest).and_compute_with(|old| {
            let newer = old.is_some_and(|old| is_newer(old.value(), &kept));
            if newer { Op::Nop } else { Op::Put(kept) }
        });
    }
}

/// Whether what is kept is of a later state of the record, or was read later.
fn is_newer(old: &Kept, new: &Kept) -> bool {
    let state = |kept: &Kept| (kept.etag.generation, kept.etag.version);
    let read = |kept: &Kept| kept.entry.as_ref().map(|entry| entry.valid_until);
    (state(old), read(old)) > (state(new), read(new))
}

fn payload_bytes(entry: &Entry) -> usize {
    match &entry.record.state {
        RecordState::Completed(completion) => completion.outcome.payload.len(),
        RecordState::Running(_)
        | RecordState::Recovering(_)
        | RecordState::Released { .. }
        | RecordState::Parked { .. }
        | RecordState::Expired(_) => 0,
    }
}
