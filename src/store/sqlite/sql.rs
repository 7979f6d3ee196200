//! Every statement that runs on SQLite, each with the invariant that it holds. All of them are
//! prepared when a store is opened.

/// The database's clock in microseconds, or the one given as `?1`. SQLite counts milliseconds.
macro_rules! now {
    () => {
        "coalesce(?1, CAST(round(unixepoch('now', 'subsec') * 1000) AS INTEGER) * 1000)"
    };
}

/// A record's columns without its payload, in the order in which `row` reads and writes them.
macro_rules! columns {
    () => {
        "digest, namespace, environment, account, key, operation, state, generation, fence, \
         version, first_reserved_at, lease_expires_at, sweep_at, detail"
    };
}

/// The clock alone, read before anything else of a snapshot: what is read is not older than this.
pub(super) const NOW: &str = concat!("SELECT ", now!());

/// The clock and the next fence: higher than every one that was ever given, for it is only called
/// inside the write transaction that stores it by [`TAKE_FENCES`].
pub(super) const MOMENT: &str = concat!("SELECT ", now!(), ", last + 1 FROM oncegate_fence");

/// Raises the counter from the last fence given before this transaction to the last one given in it.
pub(super) const TAKE_FENCES: &str = "UPDATE oncegate_fence SET last = ?2 WHERE last = ?1";

/// One record by its whole identity's digest.
pub(super) const LOAD: &str = concat!(
    "SELECT ",
    columns!(),
    ", payload FROM oncegate_record WHERE digest = ?1"
);

/// A new record, only where none is: a key is granted for the first time once.
pub(super) const INSERT: &str = concat!(
    "INSERT INTO oncegate_record (",
    columns!(),
    ", payload) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15) \
     ON CONFLICT DO NOTHING"
);

/// A record in place of exactly the one that was judged. The identity never changes.
pub(super) const UPDATE: &str = "UPDATE oncegate_record SET operation = ?2, state = ?3, \
     generation = ?4, fence = ?5, version = ?6, first_reserved_at = ?7, lease_expires_at = ?8, \
     sweep_at = ?9, detail = ?10, payload = ?11 \
     WHERE digest = ?1 AND version = ?12 AND fence = ?13 AND state = ?14";

/// Takes away exactly the record that was judged to be over.
pub(super) const DELETE: &str =
    "DELETE FROM oncegate_record WHERE digest = ?1 AND version = ?2 AND fence = ?3 AND state = ?4";

/// What time alone has ended, the longest overdue first. RUNNING, RECOVERING and PARKED can never
/// be among it. Without a limit: its reader stops, so that unreadable records take nobody's place.
pub(super) const DUE: &str = concat!(
    "SELECT ",
    columns!(),
    ", NULL FROM oncegate_record WHERE state IN (3, 4, 6) AND sweep_at <= ?1 ORDER BY sweep_at"
);

/// One line of the audit trail, in the transaction of what it tells of.
pub(super) const AUDIT: &str = "INSERT INTO oncegate_audit \
     (digest, at, actor, action, reason, fence, before, after) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";

/// A record's audit trail in its order.
pub(super) const TRAIL: &str = "SELECT id, at, actor, action, reason, fence, before, after \
     FROM oncegate_audit WHERE digest = ?1 AND id > ?2 ORDER BY id LIMIT ?3";

/// One namespace.
pub(super) const NAMESPACE: &str =
    "SELECT name, created_at, version, body FROM oncegate_namespace WHERE name = ?1";

/// Namespaces in the byte order of their names.
pub(super) const NAMESPACES: &str = "SELECT name, created_at, version, body \
     FROM oncegate_namespace WHERE name > ?1 ORDER BY name LIMIT ?2";

/// A new namespace, only where none is.
pub(super) const INSERT_NAMESPACE: &str = concat!(
    "INSERT INTO oncegate_namespace (name, created_at, version, body) VALUES (?2, ",
    now!(),
    ", 1, ?3) ON CONFLICT DO NOTHING RETURNING created_at, version"
);

/// A namespace in place of exactly the version that its editor saw.
pub(super) const UPDATE_NAMESPACE: &str = "UPDATE oncegate_namespace \
     SET version = version + 1, body = ?2 WHERE name = ?1 AND version = ?3 \
     RETURNING created_at, version";

/// The secrets of the tokens, the newest last.
pub(super) const SECRETS: &str = "SELECT id, secret FROM oncegate_token_secret ORDER BY id";

/// The first secret. Its caller has seen, in the same write transaction, that there is none.
pub(super) const INSERT_SECRET: &str =
    "INSERT INTO oncegate_token_secret (id, secret) VALUES (1, ?1)";

/// What the engine tells of itself.
pub(super) const HEALTH: &str = concat!(
    "SELECT ",
    now!(),
    ", sqlite_version(), \
     (SELECT user_version FROM pragma_user_version), \
     (SELECT journal_mode FROM pragma_journal_mode), \
     (SELECT synchronous FROM pragma_synchronous)"
);

/// All of them.
pub(super) const ALL: [&str; 18] = [
    NOW,
    MOMENT,
    TAKE_FENCES,
    LOAD,
    INSERT,
    UPDATE,
    DELETE,
    DUE,
    AUDIT,
    TRAIL,
    NAMESPACE,
    NAMESPACES,
    INSERT_NAMESPACE,
    UPDATE_NAMESPACE,
    SECRETS,
    INSERT_SECRET,
    HEALTH,
    CHECKPOINT,
];

/// Moves what is in the log into the database file and empties the log.
pub(super) const CHECKPOINT: &str = "PRAGMA wal_checkpoint(TRUNCATE)";
