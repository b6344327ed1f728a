-- Statements on opencode's own SQLite file, which is only ever read.

-- A file that is not a database, or another program's, fails here.
-- name: tables
SELECT name FROM sqlite_master WHERE type = 'table';

-- What was written last in a session, and how much; a change of any part changes one of the three.
-- name: sessions
SELECT s.id, s.parent_id, s.time_updated, count(p.id), max(p.time_updated), total(length(p.data))
  FROM session s LEFT JOIN part p ON p.session_id = s.id GROUP BY s.id ORDER BY s.id;

-- Whole rows, whichever columns there are by now. One array of ids runs into no limit.
-- name: session_rows
SELECT rowid, * FROM session WHERE id IN (SELECT value FROM json_each(?)) ORDER BY rowid;

-- name: message_rows
SELECT rowid, * FROM message WHERE session_id IN (SELECT value FROM json_each(?)) ORDER BY rowid;

-- name: part_rows
SELECT rowid, * FROM part WHERE session_id IN (SELECT value FROM json_each(?)) ORDER BY rowid;
