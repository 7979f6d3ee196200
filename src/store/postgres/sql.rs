//! Every statement. Each one's comment states the invariant that it holds.
//!
//! Times are microseconds since the epoch. A statement takes the time once, from the optional
//! parameter or else from the database's clock, not from the start of its transaction.

macro_rules! now {
    ($parameter:literal) => {
        concat!(
            "coalesce(",
            $parameter,
            "::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)"
        )
    };
}

macro_rules! columns {
    () => {
        "r.digest, r.namespace, r.environment, r.account, r.key, r.operation, r.state, \
         r.generation, r.fence, r.version, r.first_reserved_at, r.lease_expires_at, r.sweep_at, \
         r.detail"
    };
}

/// Grants new keys, and only new ones: of any number of racers exactly one gets a row back for a
/// key, for the primary key arbitrates. Nothing is locked or written for a key that is there. Keys
/// go in in their order, so that two batches never wait for each other crosswise. Fence and time
/// are the same in every column of a row; the detail's times are offsets from it. Rows come back in
/// no order: they are matched by digest.
pub(super) const RESERVE_NEW: &str = concat!(
    "INSERT INTO oncegate_record \
       (digest, namespace, environment, account, key, operation, state, generation, fence, version, \
        first_reserved_at, lease_expires_at, detail) \
     SELECT i.digest, i.namespace, i.environment, i.account, i.key, i.operation, i.state, i.f, i.f, \
            i.version, m.n, m.n + i.lease, i.detail \
     FROM (SELECT ",
    now!("$10"),
    " AS n) m CROSS JOIN (SELECT u.*, nextval('oncegate_fence') AS f \
           FROM unnest($1::bytea[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], \
                       $7::smallint[], $8::bigint[], $9::bigint[], $11::bytea[]) \
             AS u (digest, namespace, environment, account, key, operation, state, version, lease, \
                   detail)) i \
     ORDER BY i.digest \
     ON CONFLICT (digest) DO NOTHING \
     RETURNING digest, fence, first_reserved_at",
);

/// Reads what commands are judged by, one row for each digest. A fence is drawn after the snapshot,
/// so it is higher than the record's. It is drawn only where a new reservation is possible: for a
/// Reserve ($2), unless the record is COMPLETED and its retention runs.
pub(super) const LOAD: &str = concat!(
    "SELECT m.n, \
            CASE WHEN a.reserves AND (r.state = 4 AND r.sweep_at > m.n) IS NOT TRUE \
                 THEN nextval('oncegate_fence') ELSE 0 END AS f, \
            a.digest AS asked, ",
    columns!(),
    ", r.payload \
     FROM (SELECT ",
    now!("$3"),
    " AS n) m CROSS JOIN unnest($1::bytea[], $2::boolean[]) AS a (digest, reserves) \
       LEFT JOIN oncegate_record r ON r.digest = a.digest",
);

/// The results of judgements by their columns, each only where the moment, if it was a guess
/// ($5), is one that the database's clock agrees with.
macro_rules! results {
    () => {
        concat!(
            "(SELECT ",
            now!("$16"),
            " AS n) m CROSS JOIN unnest($1::bytea[], $2::bigint[], $3::bigint[], $4::smallint[], \
                  $5::bigint[], $6::text[], $7::smallint[], $8::bigint[], $9::bigint[], \
                  $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bytea[], \
                  $15::bytea[]) \
               AS u (digest, judged_version, judged_fence, judged_state, guessed_at, operation, \
                     state, generation, fence, version, first_reserved_at, lease_expires_at, \
                     sweep_at, detail, payload)"
        )
    };
}

/// A row is still the record that was judged.
macro_rules! is_judged {
    ($row:literal) => {
        concat!(
            $row,
            ".version = u.judged_version AND ",
            $row,
            ".fence = u.judged_fence AND ",
            $row,
            ".state = u.judged_state"
        )
    };
}

macro_rules! agreed {
    () => {
        "coalesce(abs(m.n - u.guessed_at), 0) <= 1000000"
    };
}

macro_rules! update {
    () => {
        "UPDATE oncegate_record r SET \
           operation = u.operation, state = u.state, generation = u.generation, \
           fence = u.fence, version = u.version, first_reserved_at = u.first_reserved_at, \
           lease_expires_at = u.lease_expires_at, sweep_at = u.sweep_at, detail = u.detail, \
           payload = u.payload "
    };
}

/// Stores the results of judgements, each only if the record is still the one that was judged: no
/// row means that somebody else was first, or is at it. A batch locks first what nobody else has
/// locked and never waits for a row, so one that is held up holds up no other, and no two batches
/// can wait for each other. What is locked is found again by its place, which nobody can change.
macro_rules! replace_many {
    () => {
        concat!(
            update!(),
            "FROM (SELECT u.*, free.ctid AS place FROM ",
            results!(),
            " JOIN oncegate_record free ON free.digest = u.digest WHERE ",
            is_judged!("free"),
            " AND ",
            agreed!(),
            " FOR NO KEY UPDATE OF free SKIP LOCKED) u WHERE r.ctid = u.place AND ",
            is_judged!("r"),
            " RETURNING r.digest"
        )
    };
}

/// The same for one, which waits for a lock as long as `lock_timeout` allows.
macro_rules! replace_one {
    () => {
        concat!(
            update!(),
            "FROM ",
            results!(),
            " WHERE r.digest = u.digest AND ",
            is_judged!("r"),
            " AND ",
            agreed!(),
            " RETURNING r.digest"
        )
    };
}

/// Writes an audit line for those records, and only those, that were changed.
macro_rules! audited {
    () => {
        ", line AS (INSERT INTO oncegate_audit \
             (digest, at, actor, action, reason, fence, before, after) \
           SELECT a.digest, a.at, a.actor, a.action, a.reason, a.fence, a.before, a.after \
           FROM changed JOIN unnest($17::bytea[], $18::bigint[], $19::text[], $20::text[], \
                  $21::text[], $22::bigint[], $23::smallint[], $24::smallint[]) \
             AS a (digest, at, actor, action, reason, fence, before, after) USING (digest)) \
         SELECT digest FROM changed"
    };
}

macro_rules! with_audit {
    ($replace:expr) => {
        concat!("WITH changed AS (", $replace, ")", audited!())
    };
}

/// A batch of results, past what is locked.
pub(super) const REPLACE: &str = replace_many!();

/// The same, with lines for the audit trail.
pub(super) const REPLACE_AUDITED: &str = with_audit!(replace_many!());

/// One result, which waits for a lock.
pub(super) const REPLACE_ALONE: &str = replace_one!();

/// The same, with a line for the audit trail.
pub(super) const REPLACE_ALONE_AUDITED: &str = with_audit!(replace_one!());

/// Reads any number of records in one snapshot, and the time even if there is none of them. Rows
/// come in no order: they are matched by digest.
pub(super) const READ: &str = concat!(
    "SELECT m.n, ",
    columns!(),
    ", r.payload \
     FROM (SELECT ",
    now!("$2"),
    " AS n) m LEFT JOIN oncegate_record r ON r.digest = ANY($1::bytea[])",
);

/// Finds and locks what is due, the longest due first, past what another sweeper holds ($3: past
/// what cannot be read, so that it does not block the rest). RUNNING, RECOVERING and PARKED are
/// never among it.
pub(super) const SWEEP_FIND: &str = concat!(
    "WITH m AS MATERIALIZED (SELECT ",
    now!("$1"),
    " AS n) SELECT (SELECT n FROM m) AS n, ",
    columns!(),
    ", NULL::bytea AS payload \
     FROM oncegate_record r \
     WHERE r.state IN (3, 4, 6) AND r.sweep_at <= (SELECT n FROM m) \
       AND r.digest <> ALL($3::bytea[]) \
     ORDER BY r.sweep_at LIMIT $2::bigint FOR UPDATE OF r SKIP LOCKED",
);

/// Turns completed records into tombstones, each only if it is still the one that was judged.
/// Generation and fence stay.
pub(super) const SWEEP_BURY: &str = "UPDATE oncegate_record r SET \
       state = 6, version = b.version, sweep_at = b.sweep_at, detail = b.detail, payload = NULL \
     FROM unnest($1::bytea[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bytea[]) \
       AS b (digest, judged, version, sweep_at, detail) \
     WHERE r.digest = b.digest AND r.version = b.judged AND r.state = 4";

/// Deletes records that nothing is left of, each only if it is still the one that was judged.
pub(super) const SWEEP_DELETE: &str = "DELETE FROM oncegate_record r \
     USING unnest($1::bytea[], $2::bigint[]) AS d (digest, judged) \
     WHERE r.digest = d.digest AND r.version = d.judged AND r.state IN (3, 4, 6)";

/// Reads one namespace; names compare byte for byte.
pub(super) const NAMESPACE: &str = "SELECT name, version, created_at, detail \
     FROM oncegate_namespace WHERE name = $1::text";

/// Reads a page of namespaces in the order of their names' bytes.
pub(super) const NAMESPACES: &str = "SELECT name, version, created_at, detail \
     FROM oncegate_namespace WHERE name > $1::text ORDER BY name LIMIT $2::bigint";

/// Creates a namespace, and only if there is none of that name.
pub(super) const NAMESPACE_NEW: &str = concat!(
    "INSERT INTO oncegate_namespace (name, version, created_at, detail) \
     VALUES ($1::text, 1, ",
    now!("$3"),
    ", $2::bytea) ON CONFLICT (name) DO NOTHING RETURNING version, created_at",
);

/// Changes a namespace only if its version is the one that was seen.
pub(super) const NAMESPACE_REPLACE: &str = "UPDATE oncegate_namespace \
     SET version = version + 1, detail = $2::bytea \
     WHERE name = $1::text AND version = $3::bigint RETURNING version, created_at";

/// Reads a page of one record's trail in the order in which it was written.
pub(super) const AUDIT: &str = "SELECT id, at, actor, action, reason, fence, before, after \
     FROM oncegate_audit WHERE digest = $1::bytea AND id > $2::bigint ORDER BY id LIMIT $3::bigint";

/// Stores the first secret; of any number of first callers one wins, the others keep its secret.
pub(super) const SECRET_NEW: &str = concat!(
    "INSERT INTO oncegate_token_secret (id, secret, created_at) \
     VALUES (1, $1::bytea, ",
    now!("$2"),
    ") ON CONFLICT (id) DO NOTHING",
);

/// Reads the secrets, the newest last.
pub(super) const SECRETS: &str = "SELECT id, secret FROM oncegate_token_secret ORDER BY id";

/// Reads back what the session really got, whoever stands between, and whether the server is one
/// that may be written to. `pg_settings` gives times in milliseconds, without a unit.
pub(super) const SETTINGS: &str = concat!(
    "SELECT name, setting FROM pg_settings WHERE name IN \
       ('server_version', 'server_encoding', 'transaction_isolation', \
        'default_transaction_isolation', 'transaction_read_only', 'statement_timeout', \
        'lock_timeout', 'synchronous_commit', 'fsync', 'full_page_writes') \
     UNION ALL SELECT 'pg_is_in_recovery', pg_is_in_recovery()::text \
     UNION ALL SELECT 'now', ",
    now!("$1"),
    "::text",
);

/// Reads which migrations were applied; a half applied one is told apart.
pub(super) const SCHEMA_VERSION: &str = "SELECT coalesce(max(version), 0) AS version, \
       coalesce(bool_and(success), true) AS clean FROM oncegate_migrations";

/// Every statement by name, so that a test can prepare each on every supported server.
#[cfg(feature = "test-util")]
pub(super) const ALL: &[(&str, &str)] = &[
    ("RESERVE_NEW", RESERVE_NEW),
    ("LOAD", LOAD),
    ("REPLACE", REPLACE),
    ("REPLACE_AUDITED", REPLACE_AUDITED),
    ("REPLACE_ALONE", REPLACE_ALONE),
    ("REPLACE_ALONE_AUDITED", REPLACE_ALONE_AUDITED),
    ("READ", READ),
    ("SWEEP_FIND", SWEEP_FIND),
    ("SWEEP_BURY", SWEEP_BURY),
    ("SWEEP_DELETE", SWEEP_DELETE),
    ("NAMESPACE", NAMESPACE),
    ("NAMESPACES", NAMESPACES),
    ("NAMESPACE_NEW", NAMESPACE_NEW),
    ("NAMESPACE_REPLACE", NAMESPACE_REPLACE),
    ("AUDIT", AUDIT),
    ("SECRET_NEW", SECRET_NEW),
    ("SECRETS", SECRETS),
    ("SETTINGS", SETTINGS),
    ("SCHEMA_VERSION", SCHEMA_VERSION),
];
