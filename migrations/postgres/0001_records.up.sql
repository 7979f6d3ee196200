-- Why: the tables of the first version: records, their audit trail, namespaces, token secrets, and
-- the sequence that fences are drawn from.
-- Locks: only new objects are made; nothing that is in use is locked.

-- Fences rise strictly. CACHE 1: a session that drew numbers ahead would hand out older ones later.
CREATE SEQUENCE oncegate_fence AS bigint MINVALUE 1 CACHE 1 NO CYCLE;

-- Times are microseconds since the epoch as plain numbers: exactly what the rules calculate with,
-- the same in every engine, and no driver or session setting can shift or round them.
-- oncegate_record_view shows them to people.
--
-- Text is compared byte for byte ("C"), whatever order the database sorts in.
CREATE TABLE oncegate_record (
    digest bytea NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    environment text COLLATE "C" NOT NULL,
    account text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    operation text COLLATE "C" NOT NULL,
    -- 1 RUNNING, 2 RECOVERING, 3 RELEASED, 4 COMPLETED, 5 PARKED, 6 EXPIRED
    state smallint NOT NULL,
    generation bigint NOT NULL,
    fence bigint NOT NULL,
    version bigint NOT NULL,
    first_reserved_at bigint NOT NULL,
    lease_expires_at bigint,
    sweep_at bigint,
    detail bytea NOT NULL,
    payload bytea,
    CONSTRAINT oncegate_record_pkey PRIMARY KEY (digest),
    CONSTRAINT oncegate_record_digest CHECK (octet_length(digest) = 32),
    CONSTRAINT oncegate_record_namespace CHECK (octet_length(namespace) BETWEEN 1 AND 63),
    CONSTRAINT oncegate_record_environment CHECK (octet_length(environment) BETWEEN 1 AND 63),
    CONSTRAINT oncegate_record_account CHECK (octet_length(account) <= 255),
    CONSTRAINT oncegate_record_key CHECK (octet_length(key) BETWEEN 1 AND 255),
    CONSTRAINT oncegate_record_operation CHECK (octet_length(operation) BETWEEN 1 AND 127),
    CONSTRAINT oncegate_record_state CHECK (state BETWEEN 1 AND 6),
    CONSTRAINT oncegate_record_fence CHECK (generation >= 1 AND fence >= generation),
    CONSTRAINT oncegate_record_version CHECK (version >= 1),
    CONSTRAINT oncegate_record_lease CHECK (lease_expires_at IS NULL OR state IN (1, 2)),
    CONSTRAINT oncegate_record_sweep CHECK ((sweep_at IS NOT NULL) = (state IN (3, 4, 6))),
    CONSTRAINT oncegate_record_payload CHECK (payload IS NULL OR state = 4)
) WITH (fillfactor = 80);

-- What the sweeper looks for.
CREATE INDEX oncegate_record_sweep_at ON oncegate_record (sweep_at) WHERE state IN (3, 4, 6);

-- What the reconciler looks for.
CREATE INDEX oncegate_record_lease_expires_at ON oncegate_record (lease_expires_at)
    WHERE state IN (1, 2);

-- No foreign key: the trail outlives the record.
CREATE TABLE oncegate_audit (
    id bigint GENERATED ALWAYS AS IDENTITY,
    digest bytea NOT NULL,
    at bigint NOT NULL,
    actor text COLLATE "C" NOT NULL,
    action text COLLATE "C" NOT NULL,
    reason text COLLATE "C" NOT NULL,
    fence bigint NOT NULL,
    before smallint NOT NULL,
    after smallint NOT NULL,
    CONSTRAINT oncegate_audit_pkey PRIMARY KEY (id),
    CONSTRAINT oncegate_audit_digest CHECK (octet_length(digest) = 32),
    CONSTRAINT oncegate_audit_action CHECK (action IN ('EXPIRE', 'RESOLVE', 'REEXECUTE')),
    CONSTRAINT oncegate_audit_states CHECK (before BETWEEN 1 AND 6 AND after BETWEEN 1 AND 6)
);

CREATE INDEX oncegate_audit_digest_id ON oncegate_audit (digest, id);

CREATE TABLE oncegate_namespace (
    name text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    created_at bigint NOT NULL,
    detail bytea NOT NULL,
    CONSTRAINT oncegate_namespace_pkey PRIMARY KEY (name),
    CONSTRAINT oncegate_namespace_name CHECK (octet_length(name) BETWEEN 1 AND 63),
    CONSTRAINT oncegate_namespace_version CHECK (version >= 1)
);

CREATE TABLE oncegate_token_secret (
    id smallint NOT NULL,
    secret bytea NOT NULL,
    created_at bigint NOT NULL,
    CONSTRAINT oncegate_token_secret_pkey PRIMARY KEY (id),
    CONSTRAINT oncegate_token_secret_id CHECK (id BETWEEN 0 AND 255),
    CONSTRAINT oncegate_token_secret_secret CHECK (octet_length(secret) = 32)
);

-- For people. Nothing of the service reads it.
CREATE VIEW oncegate_record_view AS
SELECT
    encode(digest, 'hex') AS digest,
    namespace,
    environment,
    account,
    key,
    operation,
    (ARRAY['RUNNING', 'RECOVERING', 'RELEASED', 'COMPLETED', 'PARKED', 'EXPIRED'])[state] AS state,
    generation,
    fence,
    version,
    'epoch'::timestamptz + first_reserved_at * interval '1 microsecond' AS first_reserved_at,
    'epoch'::timestamptz + lease_expires_at * interval '1 microsecond' AS lease_expires_at,
    'epoch'::timestamptz + sweep_at * interval '1 microsecond' AS sweep_at,
    octet_length(detail) AS detail_bytes,
    octet_length(payload) AS payload_bytes
FROM oncegate_record;
