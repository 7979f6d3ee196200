//! One command on one record. A new key is granted by one INSERT; everything else is read, judged,
//! and written only over the very record that was judged.

use std::time::Duration;

use super::error::{Access, Failure};
use super::session::Session;
use super::{row, sql};
use crate::domain::command::{Answer, Command, Reserve};
use crate::domain::decision::{Audit, Moment, decide};
use crate::domain::record::{Fence, Record};
use crate::domain::time::Timestamp;
use crate::port::store::StoreError;
use crate::store::codec::{self, Payload};

/// How often a command is judged again because another one was first, before the worker takes
/// stock of the time.
const ROUNDS_MAX: u32 = 32;
/// From which round on it waits a little before, so that the crowd thins out.
const ROUNDS_AT_ONCE: u32 = 3;

/// Carries out one command.
pub(super) async fn apply(session: &mut Session, command: &Command) -> Result<Answer, Failure> {
    // What the INSERT can count on; a wrong guess costs one statement.
    let mut maybe_new = true;
    for round in 0..ROUNDS_MAX {
        if round >= ROUNDS_AT_ONCE {
            pause(round).await;
        }
        if let Command::Reserve(reserve) = command
            && maybe_new
            && let Some(moment) = insert(session, reserve).await?
        {
            return Ok(decide(command, None, moment).answer);
        }
        let (moment, stored) = load(session, command).await?;
        let decision = decide(command, stored.as_ref(), moment);
        let Some(record) = decision.write else {
            return Ok(decision.answer);
        };
        if let Some(judged) = &stored
            && replace(session, judged, &record, decision.audit.as_ref()).await?
        {
            return Ok(decision.answer);
        }
        maybe_new = stored.is_none();
    }
    let reason = "the record is contended".to_owned();
    Err(Failure::Again { reason })
}

/// A few milliseconds, more with every round, never the same for two.
async fn pause(round: u32) {
    let jitter = getrandom::u32().unwrap_or(round) % (2 * round);
    tokio::time::sleep(Duration::from_millis(u64::from(jitter))).await;
}

/// Grants the key if it is new; `None`: it is not.
async fn insert(session: &mut Session, reserve: &Reserve) -> Result<Option<Moment>, Failure> {
    let Some(fresh) = codec::fresh(reserve) else {
        return Ok(None);
    };
    let query = sqlx::query(sql::RESERVE_NEW)
        .bind(fresh.digest.to_vec())
        .bind(fresh.namespace)
        .bind(fresh.environment)
        .bind(fresh.account)
        .bind(fresh.key)
        .bind(fresh.operation)
        .bind(fresh.state)
        .bind(fresh.version)
        .bind(fresh.lease_expires_at)
        .bind(fresh.detail)
        .bind(session.injected_now());
    let Some(row) = session.optional(Access::Write, query).await? else {
        return Ok(None);
    };
    Ok(Some(Moment {
        now: Timestamp::from_micros(row::get(&row, "first_reserved_at")?),
        next_fence: Fence::new(row::get(&row, "fence")?),
    }))
}

/// Reads what the command is judged by.
async fn load(
    session: &mut Session,
    command: &Command,
) -> Result<(Moment, Option<Record>), Failure> {
    let key = command.key();
    let query = sqlx::query(sql::LOAD)
        .bind(key.digest().as_bytes().to_vec())
        .bind(session.injected_now())
        .bind(matches!(command, Command::Reserve(_)));
    let row = session.one(Access::Read, query).await?;
    let moment = Moment {
        now: Timestamp::from_micros(row::get(&row, "n")?),
        next_fence: Fence::new(row::get(&row, "f")?),
    };
    let Some((_, record)) = row::record(&row, Payload::Read)? else {
        return Ok((moment, None));
    };
    let record = record?;
    if record.key != *key {
        let digest = key.digest().short();
        tracing::error!(digest, "CORRUPT: two identities share a digest");
        let problem = format!("record {digest}…: it is another identity's");
        return Err(StoreError::Corrupt(problem).into());
    }
    Ok((moment, Some(record)))
}

/// Stores the record in place of the one that was judged; `false`: that one is no longer there.
async fn replace(
    session: &mut Session,
    judged: &Record,
    record: &Record,
    audit: Option<&Audit>,
) -> Result<bool, Failure> {
    let row = codec::encode(record);
    let statement = if audit.is_some() {
        sql::REPLACE_AUDITED
    } else {
        sql::REPLACE
    };
    let mut query = sqlx::query(statement)
        .bind(row.digest.to_vec())
        .bind(judged.version.get())
        .bind(judged.fence.get())
        .bind(judged.state_name().code())
        .bind(row.operation)
        .bind(row.state)
        .bind(row.generation)
        .bind(row.fence)
        .bind(row.version)
        .bind(row.first_reserved_at)
        .bind(row.lease_expires_at)
        .bind(row.sweep_at)
        .bind(row.detail)
        .bind(row.payload);
    if let Some(audit) = audit {
        query = query
            .bind(audit.at.as_micros())
            .bind(audit.actor.clone())
            .bind(row::action_name(audit.action))
            .bind(audit.reason.clone())
            .bind(audit.fence.get())
            .bind(audit.before.code())
            .bind(audit.after.code());
    }
    Ok(session.execute(Access::Write, query).await? == 1)
}
