-- Why: takes the first version's tables away again. Refuses while they hold a record: without its
-- record a key would run a second time, and without its sequence a fence would be given twice.
-- Locks: ACCESS EXCLUSIVE on all of Oncegate's tables, until the end; first on the records, so that
-- none can come in after the look.

SET LOCAL lock_timeout = '5s';

LOCK TABLE oncegate_record IN ACCESS EXCLUSIVE MODE;

DO $$
BEGIN
    IF EXISTS (SELECT FROM oncegate_record) THEN
        RAISE EXCEPTION 'oncegate_record still holds records'
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
END
$$;

DROP VIEW oncegate_record_view;
DROP TABLE oncegate_record, oncegate_audit, oncegate_namespace, oncegate_token_secret;
DROP SEQUENCE oncegate_fence;
