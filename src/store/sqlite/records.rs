//! Records and their audit trail, inside a transaction that its caller has begun. In the writer's,
//! nothing can come between what is judged and what is written.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, params};

use super::row::{self, Judged};
use super::{error, sql};
use crate::domain::decision::{Moment, Sweep, decide_sweep};
use crate::domain::key::{KeyDigest, RecordKey};
use crate::domain::record::{Fence, Record};
use crate::domain::time::Timestamp;
use crate::port::clock::Clock;
use crate::port::store::{AuditEntry, Reading, StoreError, Swept};
use crate::store::codec::{self, Payload};
use crate::store::queue::{Judgement, Work};
use crate::store::shared_digest;

/// Judges each key's commands, at one moment, and writes what was decided. A record that cannot be
/// read concerns its own key alone.
pub(super) fn judge(
    connection: &Connection,
    clock: &Clock,
    works: &[Work],
) -> Result<Vec<Result<Judgement, StoreError>>, StoreError> {
    let first = moment(connection, clock)?;
    let mut moment = first;
    let mut judgements = Vec::with_capacity(works.len());
    for work in works {
        let judgement = match load(connection, work) {
            Ok(stored) => judge_one(connection, work, stored, &mut moment)?,
            Err(corrupt @ StoreError::Corrupt(_)) => {
                judgements.push(Err(corrupt));
                continue;
            }
            Err(failure) => return Err(failure),
        };
        judgements.push(Ok(judgement));
    }
    if moment != first {
        take_fences(connection, first.next_fence, moment.next_fence)?;
    }
    Ok(judgements)
}

fn judge_one(
    connection: &Connection,
    work: &Work,
    stored: Option<Record>,
    moment: &mut Moment,
) -> Result<Judgement, StoreError> {
    let judgement = work.judge(stored.map(Arc::new), *moment);
    if let Some(record) = &judgement.write {
        write(connection, judgement.stored.as_deref(), record)?;
        if record.fence == moment.next_fence {
            moment.next_fence = Fence::new(record.fence.get() + 1);
        }
    }
    if let Some(audit) = &judgement.audit {
        let changed = row::insert_audit(connection, work.digest.as_bytes(), audit)?;
        error::one_row(changed, "an audit line")?;
    }
    Ok(judgement)
}

/// Reads records at one moment.
pub(super) fn read(
    connection: &Connection,
    clock: &Clock,
    keys: &[RecordKey],
) -> Result<Reading, StoreError> {
    let now = now(connection, clock)?;
    let mut records = Vec::with_capacity(keys.len());
    for key in keys {
        match find(connection, &key.digest()) {
            Err(failure @ (StoreError::Unavailable(_) | StoreError::Unusable(_))) => {
                return Err(failure);
            }
            read => records.push(read),
        }
    }
    Ok(Reading { now, records })
}

/// Buries or deletes what time has ended.
pub(super) fn sweep(
    connection: &Connection,
    clock: &Clock,
    batch: u32,
) -> Result<Swept, StoreError> {
    let now = now(connection, clock)?;
    let mut swept = Swept::default();
    for (record, sweep) in due(connection, now, batch)? {
        match sweep {
            Sweep::Bury(buried) => {
                write(connection, Some(&record), &buried)?;
                swept.buried += 1;
            }
            Sweep::Delete => {
                delete(connection, &record)?;
                swept.deleted += 1;
            }
        }
    }
    Ok(swept)
}

/// Reads a record's audit trail.
pub(super) fn trail(
    connection: &Connection,
    digest: &KeyDigest,
    after: i64,
    limit: u32,
) -> Result<Vec<AuditEntry>, StoreError> {
    let mut statement = connection.prepare_cached(sql::TRAIL)?;
    let entries = statement.query_map(params![digest.as_bytes(), after, limit], row::audit)?;
    entries.map(|entry| entry?).collect()
}

/// The database's clock, or the one that a test injects.
pub(super) fn now(connection: &Connection, clock: &Clock) -> Result<Timestamp, StoreError> {
    let mut statement = connection.prepare_cached(sql::NOW)?;
    let now = statement.query_row([clock.injected()], |row| row.get(0))?;
    Ok(Timestamp::from_micros(now))
}

fn moment(connection: &Connection, clock: &Clock) -> Result<Moment, StoreError> {
    let mut statement = connection.prepare_cached(sql::MOMENT)?;
    let read = |row: &rusqlite::Row<'_>| {
        Ok(Moment {
            now: Timestamp::from_micros(row.get(0)?),
            next_fence: Fence::new(row.get(1)?),
        })
    };
    Ok(statement.query_row([clock.injected()], read)?)
}

/// Raises the counter over the fences that were given.
fn take_fences(connection: &Connection, first: Fence, next: Fence) -> Result<(), StoreError> {
    let mut statement = connection.prepare_cached(sql::TAKE_FENCES)?;
    let changed = statement.execute([first.get() - 1, next.get() - 1])?;
    error::one_row(changed, "the fence counter")
}

/// Reads the record that a key's commands are judged by.
fn load(connection: &Connection, work: &Work) -> Result<Option<Record>, StoreError> {
    let stored = find(connection, &work.digest)?;
    if stored
        .as_ref()
        .is_some_and(|record| !work.is_on(&record.key))
    {
        return Err(shared_digest(&work.digest));
    }
    Ok(stored)
}

/// Reads the record of a digest. Its parts are compared with that.
fn find(connection: &Connection, digest: &KeyDigest) -> Result<Option<Record>, StoreError> {
    let mut statement = connection.prepare_cached(sql::LOAD)?;
    let read = |found: &rusqlite::Row<'_>| Ok(row::record(found, Payload::Read));
    let found = statement.query_row([digest.as_bytes()], read).optional()?;
    found.transpose()
}

/// At most `limit` records that time has ended, with what is to be done. Those that cannot be read
/// are passed over: they would otherwise stay at the head for ever.
fn due(
    connection: &Connection,
    now: Timestamp,
    limit: u32,
) -> Result<Vec<(Record, Sweep)>, StoreError> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut statement = connection.prepare_cached(sql::DUE)?;
    let mut rows = statement.query([now.as_micros()])?;
    let mut due = Vec::new();
    while due.len() < limit {
        let Some(found) = rows.next()? else { break };
        let Ok(record) = row::record(found, Payload::LeftOut) else {
            continue;
        };
        due.extend(decide_sweep(&record, now).map(|sweep| (record, sweep)));
    }
    Ok(due)
}

/// Stores a record in place of the one that was judged, or as new where there was none.
fn write(
    connection: &Connection,
    judged: Option<&Record>,
    record: &Record,
) -> Result<(), StoreError> {
    let row = codec::encode(record);
    let changed = match judged {
        Some(judged) => row::update(connection, &row, seen(judged))?,
        None => row::insert(connection, &row)?,
    };
    error::one_row(changed, "a record")
}

fn delete(connection: &Connection, record: &Record) -> Result<(), StoreError> {
    let digest = record.key.digest();
    let seen = seen(record);
    let mut statement = connection.prepare_cached(sql::DELETE)?;
    let changed = statement.execute(params![
        digest.as_bytes(),
        seen.version,
        seen.fence,
        seen.state
    ])?;
    error::one_row(changed, "a deletion")
}

fn seen(record: &Record) -> Judged {
    Judged {
        version: record.version.get(),
        fence: record.fence.get(),
        state: record.state_name().code(),
    }
}
