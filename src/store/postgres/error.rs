//! What a driver's error means for the operation: whether to try again, on which connection, and
//! what the caller is told. The driver's words end here: they can hold other callers' keys, so they
//! are neither told nor, beyond their code, logged.

use sqlx::postgres::{PgDatabaseError, PgSeverity};

use crate::port::store::StoreError;

/// What a pooler between the service and the server takes away, and how to mend it.
pub(super) const POOLER: &str = "the session's settings are not the ones that were asked for: a \
     transaction pooler (e.g. PgBouncer) stands between; connect straight to Postgres, or through a \
     session pooler that passes the startup parameter `options` on";

const SCHEMA: &str =
    "the database has not the tables that this version needs: run `oncegate migrate`";

/// Why one try failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// The connection cannot be trusted any more; another try on a fresh one may do.
    Broken {
        /// For the caller, should no further try help.
        reason: String,
        /// A write was sent and its answer did not come: it may have happened.
        wrote: bool,
    },
    /// The server took the statement back whole and the connection is sound: try again.
    Again {
        /// For the caller, should no further try help.
        reason: String,
    },
    /// Another try does not help.
    Final(StoreError),
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Final(error)
    }
}

impl Failure {
    /// Nothing was written, and this connection is of no use.
    pub(super) fn unreachable(reason: &str) -> Self {
        let reason = reason.to_owned();
        Self::Broken {
            reason,
            wrote: false,
        }
    }

    /// What the caller is told if there is no further try. `unknown`: an earlier try may have
    /// written.
    pub(super) fn told(self, unknown: bool) -> StoreError {
        match self {
            Self::Broken { reason, wrote } if wrote || unknown => {
                StoreError::OutcomeUnknown(reason)
            }
            Self::Again { reason } if unknown => StoreError::OutcomeUnknown(reason),
            Self::Broken { reason, .. } | Self::Again { reason } => StoreError::Unavailable(reason),
            Self::Final(StoreError::Unavailable(reason) | StoreError::Unusable(reason))
                if unknown =>
            {
                StoreError::OutcomeUnknown(reason)
            }
            Self::Final(error) => error,
        }
    }
}

/// Whether a statement writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// It does not: if its answer is lost, nothing happened.
    Read,
    /// It does: if its answer is lost, it may have happened.
    Write,
}

/// Judges the driver's error.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the driver's errors are open to new ones"
)]
pub(super) fn classify(error: &sqlx::Error, access: Access) -> Failure {
    let broken = |reason: &str| Failure::Broken {
        reason: reason.to_owned(),
        wrote: access == Access::Write,
    };
    match error {
        sqlx::Error::Database(error) => match error.try_downcast_ref::<PgDatabaseError>() {
            Some(error) => from_server(error, access),
            None => broken("the server answered with an unexpected error"),
        },
        sqlx::Error::Io(error) => {
            tracing::debug!(kind = ?error.kind(), "the connection to Postgres failed");
            broken("the database cannot be reached")
        }
        sqlx::Error::Tls(_) => broken("no TLS connection to the database could be made"),
        sqlx::Error::ColumnDecode { .. }
        | sqlx::Error::ColumnNotFound(_)
        | sqlx::Error::ColumnIndexOutOfBounds { .. }
        | sqlx::Error::Decode(_) => {
            StoreError::Corrupt("a column holds what cannot be read".to_owned()).into()
        }
        _ => broken("the connection to the database broke"),
    }
}

fn from_server(error: &PgDatabaseError, access: Access) -> Failure {
    let (code, constraint) = (error.code(), error.constraint().unwrap_or_default());
    tracing::debug!(code, constraint, severity = ?error.severity(), "Postgres refused");
    let reason = |text: &str| text.to_owned();
    let unusable = |text: &str| Failure::Final(StoreError::Unusable(text.to_owned()));
    let lost = access == Access::Write;
    // A pooler's own words; it has no code of its own for this.
    if error.message().contains("unsupported startup parameter") {
        return unusable(POOLER);
    }
    match code {
        "40001" | "40P01" | "55P03" => Failure::Again {
            reason: reason("the record is contended"),
        },
        "25006" => Failure::unreachable("the server is read-only: a standby, or a former primary"),
        // Whoever cancelled it: the connection is not trusted after a time-out.
        "57014" => {
            let reason = reason("the database did not answer in time");
            Failure::Broken {
                reason,
                wrote: lost,
            }
        }
        "42P01" | "42703" | "42883" | "3F000" => unusable(SCHEMA),
        "42501" => unusable(
            "the database role lacks rights on Oncegate's tables: grant it SELECT, INSERT, UPDATE \
             and DELETE on them and USAGE on the sequence oncegate_fence",
        ),
        "28000" | "28P01" => unusable(
            "the server refuses the user or the password: check ONCEGATE_DATABASE_URL and pg_hba.conf",
        ),
        "3D000" => unusable(
            "the database of that name does not exist: create it and run `oncegate migrate`",
        ),
        "XX001" | "XX002" => {
            StoreError::Corrupt(format!("the server reports damaged data (SQLSTATE {code})")).into()
        }
        // Only our own constraints' names can stand here, never a value.
        _ if code.starts_with("23") => {
            StoreError::Corrupt(format!("a record breaks the constraint {constraint}")).into()
        }
        _ => {
            // FATAL can come between a commit and its answer.
            let fatal = error.severity() != PgSeverity::Error;
            tracing::warn!(code, fatal, "Postgres answered with an unexpected error");
            let reason = format!("the database refuses to work just now (SQLSTATE {code})");
            Failure::Broken {
                reason,
                wrote: lost,
            }
        }
    }
}
