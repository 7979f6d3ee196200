-- Why: takes the first tables away again. Refuses while a record exists or a fence was ever given:
-- both are promises that nothing could restore.
-- Locks: the database file, as every write does.

-- SQLite has no RAISE outside triggers; a CHECK that does not hold stops the transaction as well.
CREATE TEMP TABLE oncegate_refusal (
  promises INTEGER NOT NULL,
  CONSTRAINT records_or_fences_would_be_lost CHECK (promises = 0)
);
INSERT INTO oncegate_refusal (promises)
SELECT (SELECT count(*) FROM oncegate_record) + (SELECT count(*) FROM oncegate_fence WHERE last > 0);
DROP TABLE temp.oncegate_refusal;

DROP TABLE oncegate_fence;
DROP TABLE oncegate_token_secret;
DROP TABLE oncegate_namespace;
DROP TABLE oncegate_audit;
DROP TABLE oncegate_record;
