//! Commands on many keys at once. New keys are granted by one INSERT; everything else is judged on
//! the record as it was read, or as this process wrote it last, and written only over the very
//! record that was judged.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use sqlx::Postgres;
use sqlx::postgres::PgArguments;
use sqlx::query::Query;

use super::error::{Access, Failure};
use super::known::Known;
use super::session::Session;
use super::{row, sql};
use crate::domain::command::Command;
use crate::domain::decision::{Audit, Moment};
use crate::domain::key::KeyDigest;
use crate::domain::record::{Fence, Record};
use crate::domain::time::Timestamp;
use crate::port::store::StoreError;
use crate::store::codec::{self, Payload, Row};
use crate::store::queue::{Judgement, Lane, Work};
use crate::store::shared_digest;

/// How often a key is tried among others before it is tried alone: somebody may hold its lock.
const TRIES_AMONG_OTHERS: u32 = 3;

/// Tries each key's commands once and tells what was settled. What is left in the works is to be
/// tried again.
pub(super) async fn attempt(
    session: &mut Session,
    known: &Known,
    lane: Lane,
    works: &mut [Work],
) -> Result<(), Failure> {
    for work in works.iter_mut() {
        work.alone = false;
    }
    let new = works.iter().all(|work| !work.is_there && work.asks());
    match lane {
        Lane::Reserve | Lane::Alone if new => grant(session, known, works).await,
        Lane::Complete
        | Lane::Renew
        | Lane::Reexecute
        | Lane::Reserve
        | Lane::Lookup
        | Lane::Alone => judge(session, known, lane, works).await,
    }
}

/// Grants the keys that are new.
async fn grant(session: &mut Session, known: &Known, works: &mut [Work]) -> Result<(), Failure> {
    let mut fresh = Vec::with_capacity(works.len());
    for work in works.iter() {
        if let Some(Command::Reserve(reserve)) = work.first() {
            fresh.extend(codec::fresh(reserve));
        }
    }
    let rows: Vec<_> = fresh.iter().map(|record| codec::encode(record)).collect();
    let query = sqlx::query(sql::RESERVE_NEW)
        .bind(column(&rows, |row| &row.digest[..]))
        .bind(column(&rows, |row| row.namespace))
        .bind(column(&rows, |row| row.environment))
        .bind(column(&rows, |row| row.account))
        .bind(column(&rows, |row| row.key))
        .bind(column(&rows, |row| row.operation))
        .bind(column(&rows, |row| row.state))
        .bind(column(&rows, |row| row.version))
        .bind(column(&rows, |row| row.lease_expires_at))
        .bind(session.injected_now())
        .bind(column(&rows, |row| &*row.detail));
    let granted = session.all(Access::Write, query).await?;
    let mut moments = HashMap::with_capacity(granted.len());
    for row in &granted {
        let moment = Moment {
            now: Timestamp::from_micros(row::get(row, "first_reserved_at")?),
            next_fence: Fence::new(row::get(row, "fence")?),
        };
        moments.insert(row::digest(row, "digest")?, moment);
    }
    if let Some(moment) = moments.values().next() {
        known.told(moment.now);
    }
    for work in works {
        match moments.get(&work.digest) {
            Some(moment) => {
                let judgement = work.judge(None, *moment);
                if let Some(record) = &judgement.write {
                    known.wrote(work.digest, Arc::clone(record));
                }
                work.tell(judgement);
                work.is_there = true;
            }
            None => work.is_there = true,
        }
    }
    Ok(())
}

/// A judgement that writes, and what it was made on.
struct Write {
    /// Which of the works it is of.
    of: usize,
    judged: Arc<Record>,
    /// The moment, where it is only a guess.
    guessed_at: Option<Timestamp>,
    record: Arc<Record>,
    judgement: Judgement,
}

impl Write {
    /// `None`: the judgement writes nothing, or what it writes is new.
    fn of(of: usize, judgement: Judgement, guessed_at: Option<Timestamp>) -> Option<Self> {
        Some(Self {
            of,
            judged: Arc::clone(judgement.stored.as_ref()?),
            guessed_at,
            record: Arc::clone(judgement.write.as_ref()?),
            judgement,
        })
    }
}

/// Judges the keys and writes what was decided.
async fn judge(
    session: &mut Session,
    known: &Known,
    lane: Lane,
    works: &mut [Work],
) -> Result<(), Failure> {
    let mut writes = guess(session, known, works);
    let guessed: HashSet<_> = writes.iter().map(|write| write.of).collect();
    let unknown = (0..works.len()).filter(|of| !guessed.contains(of));
    let unknown: Vec<_> = unknown.collect();
    if !unknown.is_empty() {
        writes.extend(load(session, known, works, &unknown).await?);
    }
    if writes.is_empty() {
        return Ok(());
    }
    let replaced = replace(session, lane, &mut writes).await?;
    for write in writes {
        let work = &mut works[write.of];
        if replaced.contains(&work.digest) {
            known.wrote(work.digest, write.record);
            work.tell(write.judgement);
            continue;
        }
        known.forget(&work.digest);
        if write.guessed_at.is_none() {
            work.tell_what_was_read(write.judgement);
        }
        let contended = StoreError::Unavailable("the record is contended".to_owned());
        work.tried(false, &contended);
        work.alone = work.tries() >= TRIES_AMONG_OTHERS;
    }
    Ok(())
}

/// What holders report is judged on what this process knows, where that leads to a write: it is
/// written only if all of it was true. Nothing else is: another right takes a fence and the exact
/// time.
fn guess(session: &Session, known: &Known, works: &[Work]) -> Vec<Write> {
    let now = session.injected_now().map(Timestamp::from_micros);
    let Some(now) = now.or_else(|| known.now()) else {
        return Vec::new();
    };
    let moment = Moment {
        now,
        next_fence: Fence::new(0),
    };
    let mut writes = Vec::new();
    for (of, work) in works.iter().enumerate() {
        if !work.only_reports() || work.tries() > 0 {
            continue;
        }
        let Some(judged) = known.held(&work.digest) else {
            continue;
        };
        let judgement = work.judge(Some(judged), moment);
        writes.extend(Write::of(of, judgement, Some(now)));
    }
    writes
}

/// Reads what the works in `of` are judged by, judges them, and tells those that change nothing.
async fn load(
    session: &mut Session,
    known: &Known,
    works: &mut [Work],
    of: &[usize],
) -> Result<Vec<Write>, Failure> {
    let digests = column(of, |of| &works[*of].digest.as_bytes()[..]);
    let reserves = column(of, |of| works[*of].reserves());
    let query = sqlx::query(sql::LOAD)
        .bind(digests)
        .bind(reserves)
        .bind(session.injected_now());
    let rows = session.all(Access::Read, query).await?;
    let mut places: HashMap<_, _> = of.iter().map(|of| (works[*of].digest, *of)).collect();
    let mut writes = Vec::new();
    for row in &rows {
        let moment = Moment {
            now: Timestamp::from_micros(row::get(row, "n")?),
            next_fence: Fence::new(row::get(row, "f")?),
        };
        known.told(moment.now);
        let Some(of) = places.remove(&row::digest(row, "asked")?) else {
            continue;
        };
        let work = &mut works[of];
        let stored = match row::record(row, Payload::Read)? {
            None => None,
            Some((_, Ok(record))) if work.is_on(&record.key) => Some(Arc::new(record)),
            Some((_, Ok(_))) => {
                work.give_up(&shared_digest(&work.digest));
                continue;
            }
            Some((_, Err(corrupt))) => {
                work.give_up(&corrupt);
                continue;
            }
        };
        work.is_there = stored.is_some();
        let judgement = work.judge(stored, moment);
        if judgement.write.is_none() {
            work.tell(judgement);
        } else if work.is_there {
            writes.extend(Write::of(of, judgement, None));
        } else {
            // A new key after all: only the INSERT may grant it.
            work.tell_what_was_read(judgement);
        }
    }
    Ok(writes)
}

/// Stores each record in place of the one that was judged. Answers whose was still there.
async fn replace(
    session: &mut Session,
    lane: Lane,
    writes: &mut [Write],
) -> Result<HashSet<KeyDigest>, Failure> {
    // In the keys' order, as everywhere.
    writes.sort_by_cached_key(|write| write.judged.key.digest());
    let rows: Vec<_> = writes
        .iter()
        .map(|write| codec::encode(&write.record))
        .collect();
    let audits = writes.iter().zip(&rows);
    let audits = audits.filter_map(|(write, row)| Some((row, write.judgement.audit.as_ref()?)));
    let audits: Vec<_> = audits.collect();
    let statement = match (lane, audits.is_empty()) {
        (Lane::Alone, true) => sql::REPLACE_ALONE,
        (Lane::Alone, false) => sql::REPLACE_ALONE_AUDITED,
        (_, true) => sql::REPLACE,
        (_, false) => sql::REPLACE_AUDITED,
    };
    let guessed_at = |write: &Write| write.guessed_at.map(Timestamp::as_micros);
    let mut query = sqlx::query(statement)
        .bind(column(&rows, |row| &row.digest[..]))
        .bind(column(writes, |write| write.judged.version.get()))
        .bind(column(writes, |write| write.judged.fence.get()))
        .bind(column(writes, |write| write.judged.state_name().code()))
        .bind(column(writes, guessed_at))
        .bind(column(&rows, |row| row.operation))
        .bind(column(&rows, |row| row.state))
        .bind(column(&rows, |row| row.generation))
        .bind(column(&rows, |row| row.fence))
        .bind(column(&rows, |row| row.version))
        .bind(column(&rows, |row| row.first_reserved_at))
        .bind(column(&rows, |row| row.lease_expires_at))
        .bind(column(&rows, |row| row.sweep_at))
        .bind(column(&rows, |row| &*row.detail))
        .bind(column(&rows, |row| row.payload))
        .bind(session.injected_now());
    if !audits.is_empty() {
        query = lines(query, &audits);
    }
    let replaced = session.all(Access::Write, query).await?;
    let digest = |replaced| row::digest(replaced, "digest");
    replaced.iter().map(digest).collect()
}

type Statement = Query<'static, Postgres, PgArguments>;

/// The lines of the audit trail that come with the records.
fn lines(query: Statement, audits: &[(&Row<'_>, &Audit)]) -> Statement {
    query
        .bind(column(audits, |(row, _)| &row.digest[..]))
        .bind(column(audits, |(_, line)| line.at.as_micros()))
        .bind(column(audits, |(_, line)| &*line.actor))
        .bind(column(audits, |(_, line)| row::action_name(line.action)))
        .bind(column(audits, |(_, line)| &*line.reason))
        .bind(column(audits, |(_, line)| line.fence.get()))
        .bind(column(audits, |(_, line)| line.before.code()))
        .bind(column(audits, |(_, line)| line.after.code()))
}

/// One column of many rows.
fn column<'a, T, C>(rows: &'a [T], value: impl Fn(&'a T) -> C) -> Vec<C> {
    rows.iter().map(value).collect()
}
