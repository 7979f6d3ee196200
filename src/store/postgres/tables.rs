//! Everything that is not one command on one record: reading records, the audit trail, namespaces,
//! secrets, and the look whether the store is fit for use.

use std::collections::BTreeMap;

use super::error::{Access, Failure};
use super::session::Session;
use super::{migrate, row, sql};
use crate::domain::key::RecordKey;
use crate::domain::namespace::Namespace;
use crate::domain::time::Timestamp;
use crate::domain::token::TokenSecrets;
use crate::port::store::{AuditEntry, Health, Reading, StoreError};
use crate::store::codec::Payload;
use crate::store::namespaces::encode_namespace;
use crate::store::new_secret;

/// Reads records, all in one snapshot.
pub(super) async fn read(session: &mut Session, keys: &[RecordKey]) -> Result<Reading, Failure> {
    let digests: Vec<_> = keys.iter().map(|key| *key.digest().as_bytes()).collect();
    let asked: Vec<_> = digests.iter().map(<[u8; 32]>::as_slice).collect();
    let query = sqlx::query(sql::READ)
        .bind(asked)
        .bind(session.injected_now());
    let rows = session.all(Access::Read, query).await?;
    let mut now = None;
    let mut found = BTreeMap::new();
    for row in &rows {
        now = Some(Timestamp::from_micros(row::get(row, "n")?));
        if let Some((digest, record)) = row::record(row, Payload::Read)? {
            found.insert(digest, record);
        }
    }
    let place = |digest| found.get(digest).cloned().transpose();
    Ok(Reading {
        now: now.ok_or_else(|| Failure::unreachable("the database told no time"))?,
        records: digests.iter().map(place).collect(),
    })
}

/// Reads one namespace.
pub(super) async fn namespace(
    session: &mut Session,
    name: &str,
) -> Result<Option<Namespace>, Failure> {
    let query = sqlx::query(sql::NAMESPACE).bind(name.to_owned());
    let row = session.optional(Access::Read, query).await?;
    row.as_ref().map(row::namespace).transpose()
}

/// Reads a page of namespaces.
pub(super) async fn namespaces(
    session: &mut Session,
    (after, limit): &(String, u32),
) -> Result<Vec<Namespace>, Failure> {
    let query = sqlx::query(sql::NAMESPACES)
        .bind(after.clone())
        .bind(i64::from(*limit));
    let rows = session.all(Access::Read, query).await?;
    rows.iter().map(row::namespace).collect()
}

/// Stores a namespace over the version that was seen.
pub(super) async fn put_namespace(
    session: &mut Session,
    namespace: &Namespace,
) -> Result<Option<Namespace>, Failure> {
    let body = encode_namespace(namespace);
    let name = namespace.name.clone();
    let query = if namespace.version == 0 {
        let query = sqlx::query(sql::NAMESPACE_NEW).bind(name).bind(body);
        query.bind(session.injected_now())
    } else {
        let query = sqlx::query(sql::NAMESPACE_REPLACE).bind(name).bind(body);
        query.bind(namespace.version)
    };
    // Not tried again blindly: a second try could not tell its own first one from another's.
    let row = session
        .optional(Access::Write, query)
        .await
        .map_err(|failure| match failure {
            Failure::Broken { wrote: true, .. } => Failure::Final(failure.told(false)),
            Failure::Broken { .. } | Failure::Again { .. } | Failure::Final(_) => failure,
        })?;
    let Some(row) = row else {
        return Ok(None);
    };
    Ok(Some(Namespace {
        version: row::get(&row, "version")?,
        created_at: Timestamp::from_micros(row::get(&row, "created_at")?),
        ..namespace.clone()
    }))
}

/// Reads a page of a record's trail.
pub(super) async fn audit(
    session: &mut Session,
    (key, after, limit): &(RecordKey, i64, u32),
) -> Result<Vec<AuditEntry>, Failure> {
    let query = sqlx::query(sql::AUDIT)
        .bind(key.digest().as_bytes().to_vec())
        .bind(*after)
        .bind(i64::from(*limit));
    let rows = session.all(Access::Read, query).await?;
    rows.iter().map(row::audit).collect()
}

/// Reads the secrets; the first caller ever makes one.
pub(super) async fn token_secrets(session: &mut Session) -> Result<TokenSecrets, Failure> {
    if let Some(secrets) = stored_secrets(session).await? {
        return Ok(secrets);
    }
    let query = sqlx::query(sql::SECRET_NEW).bind(new_secret()?.to_vec());
    let query = query.bind(session.injected_now());
    session.execute(Access::Write, query).await?;
    // Another caller's secret may have come first: what is stored counts.
    let secrets = stored_secrets(session).await?;
    Ok(secrets.ok_or_else(|| StoreError::Corrupt("the first token secret vanished".to_owned()))?)
}

async fn stored_secrets(session: &mut Session) -> Result<Option<TokenSecrets>, Failure> {
    let rows = session.all(Access::Read, sqlx::query(sql::SECRETS)).await?;
    let mut secrets = Vec::new();
    for row in &rows {
        let id = u8::try_from(row::get::<i16>(row, "id")?);
        let id = id.map_err(|_error| StoreError::Corrupt("a token secret's id".to_owned()))?;
        secrets.push((id, row::bytes(row::get(row, "secret")?, "a token secret")?));
    }
    Ok(TokenSecrets::new(secrets))
}

/// Looks whether the store is fit for use now.
pub(super) async fn check(session: &mut Session) -> Result<Health, Failure> {
    let settings = session.settings().await?;
    let row = session
        .one(Access::Read, sqlx::query(sql::SCHEMA_VERSION))
        .await?;
    let schema_version = row::get(&row, "version")?;
    migrate::judge(schema_version, row::get(&row, "clean")?)?;
    Ok(Health {
        engine: "postgres",
        engine_version: settings.server_version(),
        schema_version,
        now: settings.now()?,
        settings: settings.listed(),
    })
}
