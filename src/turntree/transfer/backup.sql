-- Backups: every table of the ledger as text, read as a superuser, whom row-level security does not stop.

-- name: backup_begin
-- One snapshot for all tables; writers continue.
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY;

-- name: backup_role
SELECT rolsuper, current_setting('server_version') FROM pg_roles WHERE rolname = current_user;

-- name: backup_tables
-- What is not kept: the bindings of the SQL console, which outlive no transaction.
SELECT c.relname::text, array_agg(a.attname::text ORDER BY a.attnum), greatest(c.reltuples, 0)::bigint
  FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
  WHERE c.relnamespace = to_regnamespace('turntree') AND c.relkind IN ('r', 'p') AND c.relpersistence = 'p'
  GROUP BY c.oid, c.relname, c.reltuples ORDER BY c.relname COLLATE "C";

-- name: backup_finds_ledger
SELECT to_regclass('turntree.events') IS NOT NULL;

-- name: backup_holds_ledger
-- Whether anything would be lost if the database were replaced.
SELECT EXISTS (SELECT FROM turntree.events);

-- name: restore_begin
-- Without triggers and foreign keys: what a backup holds was checked when it was written first.
SELECT set_config('session_replication_role', 'replica', true);

-- name: restore_empty
-- A new ledger knows the cluster that it was created in; the backup says in which cluster its positions were written.
-- One that was opened before has an empty workspace, too.
DELETE FROM turntree.shard;
DELETE FROM turntree.workspaces;
DELETE FROM turntree.search_progress;

-- name: restore_sequences
SELECT setval(pg_get_serial_sequence('turntree.events', 'n'), coalesce((SELECT max(n) FROM turntree.events), 0) + 1, false),
  setval(pg_get_serial_sequence('turntree.transcripts', 'id'), coalesce((SELECT max(id) FROM turntree.transcripts), 0) + 1, false),
  setval(pg_get_serial_sequence('turntree.segments', 'number'), coalesce((SELECT max(number) FROM turntree.segments), 0) + 1, false);

-- name: restore_without_vectors
-- Without the vectors, their indexes begin again.
DELETE FROM turntree.search_progress WHERE index_name <> 'words';

-- name: restore_analyze
ANALYZE;

-- name: drop_restored
DROP DATABASE IF EXISTS turntree_restored;

-- name: create_restored
CREATE DATABASE turntree_restored OWNER turntree;

-- name: end_connections
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname IN ('turntree', 'turntree_restored') AND pid <> pg_backend_pid();

-- name: drop_replaced
DROP DATABASE IF EXISTS turntree_replaced WITH (FORCE);

-- name: rename_current
ALTER DATABASE turntree RENAME TO turntree_replaced;

-- name: rename_restored
ALTER DATABASE turntree_restored RENAME TO turntree;
