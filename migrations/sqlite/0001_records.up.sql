-- Why: the first tables: records, their audit trail, namespaces, token secrets, the last fence.
-- Locks: the database file, as every write does; there is nothing in it yet to wait for.

-- The columns are what SQL decides by; the rest of a record is the message in `detail`. Payloads
-- reach 1 MiB, so the rows are not kept in the primary key's tree (no WITHOUT ROWID), and the
-- payload comes last: reading the other columns then never touches its pages.
CREATE TABLE oncegate_record (
  digest BLOB NOT NULL PRIMARY KEY,
  namespace TEXT NOT NULL,
  environment TEXT NOT NULL,
  account TEXT NOT NULL,
  key TEXT NOT NULL,
  operation TEXT NOT NULL,
  state INTEGER NOT NULL,
  generation INTEGER NOT NULL,
  fence INTEGER NOT NULL,
  version INTEGER NOT NULL,
  first_reserved_at INTEGER NOT NULL,
  lease_expires_at INTEGER,
  sweep_at INTEGER,
  detail BLOB NOT NULL,
  payload BLOB,
  CONSTRAINT oncegate_record_digest CHECK (length(digest) = 32),
  CONSTRAINT oncegate_record_state CHECK (state BETWEEN 1 AND 6),
  CONSTRAINT oncegate_record_numbers CHECK (generation >= 1 AND fence >= generation AND version >= 1),
  -- Only a record that somebody may hold has a lease: 1 running, 2 recovering.
  CONSTRAINT oncegate_record_lease CHECK (lease_expires_at IS NULL OR state IN (1, 2)),
  -- Only what is over may ever be swept: 3 released, 4 completed, 6 expired.
  CONSTRAINT oncegate_record_sweep CHECK ((sweep_at IS NOT NULL) = (state IN (3, 4, 6))),
  CONSTRAINT oncegate_record_payload CHECK (payload IS NULL OR state = 4)
) STRICT;

-- What the sweeper looks for.
CREATE INDEX oncegate_record_sweep_at ON oncegate_record (sweep_at) WHERE state IN (3, 4, 6);
-- What the reconciler looks for.
CREATE INDEX oncegate_record_lease_expires_at ON oncegate_record (lease_expires_at) WHERE state IN (1, 2);

-- Append-only. AUTOINCREMENT: an id never comes again, even after the newest line is gone.
CREATE TABLE oncegate_audit (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  digest BLOB NOT NULL,
  at INTEGER NOT NULL,
  actor TEXT NOT NULL,
  action TEXT NOT NULL,
  reason TEXT NOT NULL,
  fence INTEGER NOT NULL,
  before INTEGER NOT NULL,
  after INTEGER NOT NULL,
  CONSTRAINT oncegate_audit_digest CHECK (length(digest) = 32),
  CONSTRAINT oncegate_audit_action CHECK (action IN ('EXPIRE', 'RESOLVE', 'REEXECUTE')),
  CONSTRAINT oncegate_audit_states CHECK (before BETWEEN 1 AND 6 AND after BETWEEN 1 AND 6)
) STRICT;

CREATE INDEX oncegate_audit_trail ON oncegate_audit (digest, id);

CREATE TABLE oncegate_namespace (
  name TEXT NOT NULL PRIMARY KEY,
  created_at INTEGER NOT NULL,
  version INTEGER NOT NULL,
  body BLOB NOT NULL,
  CONSTRAINT oncegate_namespace_version CHECK (version >= 1)
) STRICT;

CREATE TABLE oncegate_token_secret (
  id INTEGER PRIMARY KEY,
  secret BLOB NOT NULL,
  CONSTRAINT oncegate_token_secret_id CHECK (id BETWEEN 1 AND 255),
  CONSTRAINT oncegate_token_secret_secret CHECK (length(secret) = 32)
) STRICT;

-- The highest fence ever given, in exactly one row. It outlives the records: a fence that some
-- other side has seen must never be given again.
CREATE TABLE oncegate_fence (
  only INTEGER NOT NULL PRIMARY KEY,
  last INTEGER NOT NULL,
  CONSTRAINT oncegate_fence_only CHECK (only = 1),
  CONSTRAINT oncegate_fence_last CHECK (last >= 0)
) STRICT;

INSERT INTO oncegate_fence (only, last) VALUES (1, 0);
