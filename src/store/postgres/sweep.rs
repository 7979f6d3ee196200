//! The end of retention: payloads go, and later the tombstones. One transaction for a batch; rows
//! that another sweeper or a command holds are passed over.

use super::error::{Access, Failure};
use super::session::Session;
use super::{row, sql};
use crate::domain::decision::{Sweep, decide_sweep};
use crate::domain::record::Record;
use crate::domain::time::Timestamp;
use crate::port::store::Swept;
use crate::store::codec::{self, Payload};

/// How many unreadable records one sweep looks past. Each is logged when it is met, and left for
/// a person.
const UNREADABLE_MAX: usize = 1000;

/// Buries or deletes at most `batch` records.
pub(super) async fn sweep(session: &mut Session, batch: u32) -> Result<Swept, Failure> {
    match begin_to_commit(session, batch).await {
        Ok(swept) => Ok(swept),
        // The connection goes, and the transaction with it.
        Err(failure @ Failure::Broken { .. }) => Err(failure),
        Err(failure @ (Failure::Again { .. } | Failure::Final(_))) => {
            session
                .execute(Access::Read, sqlx::query("ROLLBACK"))
                .await?;
            Err(failure)
        }
    }
}

/// Before the COMMIT every lost answer means that nothing happened.
async fn begin_to_commit(session: &mut Session, batch: u32) -> Result<Swept, Failure> {
    session.execute(Access::Read, sqlx::query("BEGIN")).await?;
    let due = find(session, batch).await?;
    let swept = Swept {
        buried: bury(session, &due.bury).await?,
        deleted: delete(session, &due.delete).await?,
    };
    session
        .execute(Access::Write, sqlx::query("COMMIT"))
        .await?;
    Ok(swept)
}

#[derive(Default)]
struct Due {
    bury: Vec<(Record, Box<Record>)>,
    delete: Vec<Record>,
}

impl Due {
    fn add(&mut self, record: Record, now: Timestamp) -> bool {
        match decide_sweep(&record, now) {
            Some(Sweep::Bury(buried)) => self.bury.push((record, buried)),
            Some(Sweep::Delete) => self.delete.push(record),
            None => return false,
        }
        true
    }
}

/// Looks again behind unreadable records until the batch is full or nothing more is due.
async fn find(session: &mut Session, batch: u32) -> Result<Due, Failure> {
    let mut due = Due::default();
    let mut seen = Vec::new();
    let mut unreadable = 0;
    loop {
        let taken = seen.len() - unreadable;
        let wanted = i64::from(batch) - i64::try_from(taken).unwrap_or(i64::MAX);
        let query = sqlx::query(sql::SWEEP_FIND)
            .bind(session.injected_now())
            .bind(wanted)
            .bind(&seen);
        let rows = session.all(Access::Read, query).await?;
        let before = unreadable;
        for row in &rows {
            let now = Timestamp::from_micros(row::get(row, "n")?);
            let Some((digest, record)) = row::record(row, Payload::LeftOut)? else {
                continue;
            };
            seen.push(digest.to_vec());
            // One that is due by its column but not by its detail is as wrong as an unreadable one.
            if !record.is_ok_and(|record| due.add(record, now)) {
                unreadable += 1;
            }
        }
        if unreadable == before || unreadable >= UNREADABLE_MAX {
            return Ok(due);
        }
    }
}

async fn bury(session: &mut Session, due: &[(Record, Box<Record>)]) -> Result<u32, Failure> {
    if due.is_empty() {
        return Ok(0);
    }
    let encoded = due
        .iter()
        .map(|(record, buried)| (record, codec::encode(buried)));
    let mut due: Vec<_> = encoded.collect();
    due.sort_by_key(|(_, row)| row.digest);
    let digests: Vec<_> = due.iter().map(|(_, row)| &row.digest[..]).collect();
    let judged: Vec<_> = due.iter().map(|(record, _)| record.version.get()).collect();
    let versions: Vec<_> = due.iter().map(|(_, row)| row.version).collect();
    let sweep_at: Vec<_> = due.iter().map(|(_, row)| row.sweep_at).collect();
    let details: Vec<_> = due.iter().map(|(_, row)| &*row.detail).collect();
    let query = sqlx::query(sql::SWEEP_BURY)
        .bind(digests)
        .bind(judged)
        .bind(versions)
        .bind(sweep_at)
        .bind(details);
    let buried = session.execute(Access::Read, query).await?;
    Ok(u32::try_from(buried).unwrap_or(u32::MAX))
}

async fn delete(session: &mut Session, due: &[Record]) -> Result<u32, Failure> {
    if due.is_empty() {
        return Ok(0);
    }
    let mut due: Vec<_> = due
        .iter()
        .map(|record| (record.key.digest(), record.version))
        .collect();
    due.sort();
    let digests: Vec<_> = due
        .iter()
        .map(|(digest, _)| digest.as_bytes().to_vec())
        .collect();
    let judged: Vec<_> = due.iter().map(|(_, version)| version.get()).collect();
    let query = sqlx::query(sql::SWEEP_DELETE).bind(digests).bind(judged);
    let deleted = session.execute(Access::Read, query).await?;
    Ok(u32::try_from(deleted).unwrap_or(u32::MAX))
}
