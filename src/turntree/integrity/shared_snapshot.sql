-- The session of a process that scans a range.

-- name: fsck_join
SET TRANSACTION SNAPSHOT %(snapshot)s;

-- name: fsck_spelling
-- Timestamps are compared as text.
SELECT set_config('datestyle', 'ISO, YMD', true), set_config('timezone', 'UTC', true),
  set_config('jit', 'off', true);
