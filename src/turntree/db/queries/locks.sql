-- Advisory locks for work that only one process may do at a time.

-- name: lock_key
SELECT pg_try_advisory_lock(hashtextextended('turntree:key:' || %(workspace)b::text || ':' || %(key)b::text, 0));

-- name: unlock_key
SELECT pg_advisory_unlock(hashtextextended('turntree:key:' || %(workspace)b::text || ':' || %(key)b::text, 0));
