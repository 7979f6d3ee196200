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

/// Grants a new key, and only a new one: of any number of racers exactly one gets a row back, for
/// the primary key arbitrates. Nothing is locked or written for a key that is there. Fence and time
/// are drawn once and are the same in every column; the detail's times are offsets from it.
pub(super) const RESERVE_NEW: &str = concat!(
    "INSERT INTO oncegate_record \
       (digest, namespace, environment, account, key, operation, state, generation, fence, version, \
        first_reserved_at, lease_expires_at, detail) \
     SELECT $1::bytea, $2::text, $3::text, $4::text, $5::text, $6::text, $7::smallint, m.f, m.f, \
            $8::bigint, m.n, m.n + $9::bigint, $10::bytea \
     FROM (SELECT nextval('oncegate_fence') AS f, ",
    now!("$11"),
    " AS n) m \
     ON CONFLICT (digest) DO NOTHING \
     RETURNING fence, first_reserved_at",
);

/// Reads what a command is judged by, always one row. The fence is drawn after the snapshot, so it
/// is higher than the record's. It is drawn only where a new reservation is possible: for a Reserve
/// ($3), unless the record is COMPLETED and its retention runs.
pub(super) const LOAD: &str = concat!(
    "SELECT m.n, \
            CASE WHEN $3::boolean AND (r.state = 4 AND r.sweep_at > m.n) IS NOT TRUE \
                 THEN nextval('oncegate_fence') ELSE 0 END AS f, ",
    columns!(),
    ", r.payload \
     FROM (SELECT ",
    now!("$2"),
    " AS n) m LEFT JOIN oncegate_record r ON r.digest = $1::bytea",
);

macro_rules! replace {
    () => {
        "UPDATE oncegate_record SET \
           operation = $5::text, state = $6::smallint, generation = $7::bigint, \
           fence = $8::bigint, version = $9::bigint, first_reserved_at = $10::bigint, \
           lease_expires_at = $11::bigint, sweep_at = $12::bigint, detail = $13::bytea, \
           payload = $14::bytea \
         WHERE digest = $1::bytea AND version = $2::bigint AND fence = $3::bigint \
           AND state = $4::smallint"
    };
}

/// Stores the result of a judgement only if the record is still the one that was judged: no row
/// changed means that somebody else was first.
pub(super) const REPLACE: &str = replace!();

/// The same, and the audit line if and only if the record was changed.
pub(super) const REPLACE_AUDITED: &str = concat!(
    "WITH changed AS (",
    replace!(),
    " RETURNING digest) \
     INSERT INTO oncegate_audit (digest, at, actor, action, reason, fence, before, after) \
     SELECT digest, $15::bigint, $16::text, $17::text, $18::text, $19::bigint, $20::smallint, \
            $21::smallint \
     FROM changed",
);

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
