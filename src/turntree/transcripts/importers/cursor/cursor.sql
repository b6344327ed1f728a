-- Statements on Cursor's own SQLite files, which are only ever read. Keys are compared byte by
-- byte: two ids that differ in case are two ids.

-- A file that is not a database, or another program's, fails here.
-- name: tables
SELECT name FROM sqlite_master WHERE type = 'table';

-- The index on the key answers this without a look at any conversation; the length of the one row
-- that every change touches tells an update in place.
-- name: composers
SELECT substr(key, 14), rowid, length(value) FROM cursorDiskKV
  WHERE key >= 'composerData:' AND key < 'composerData;' AND value IS NOT NULL ORDER BY key;

-- Most composers know no subagent; the rest are few enough to be parsed.
-- name: composers_with_subagents
SELECT substr(key, 14), value FROM cursorDiskKV
  WHERE key >= 'composerData:' AND key < 'composerData;' AND instr(value, '"subagent') > 0 ORDER BY key;

-- name: rows_between
SELECT rowid, key, value FROM cursorDiskKV WHERE key >= ? AND key < ? ORDER BY key;

-- A list of placeholders would run into SQLite's limits; one array of keys does not.
-- name: rows_named
SELECT rowid, key, value FROM cursorDiskKV WHERE key IN (SELECT value FROM json_each(?)) ORDER BY key;

-- A row that is written again gets a new rowid, so these two numbers change with every message.
-- name: span
SELECT count(*), max(rowid) FROM cursorDiskKV WHERE key >= ? AND key < ?;

-- name: row_count
SELECT count(*) FROM cursorDiskKV;

-- Both keys that ever held whole conversations, or a workspace's list of them.
-- name: items
SELECT rowid, key, value FROM ItemTable
  WHERE key IN ('composer.composerData', 'workbench.panel.aichat.view.aichat.chatdata') ORDER BY key;

-- The panes of a workspace name the composers that they show.
-- name: panes
SELECT key, value FROM ItemTable
  WHERE key >= 'workbench.panel.composerChatViewPane' AND key < 'workbench.panel.composerChatViewPanf' ORDER BY key;

-- name: headers
SELECT rowid AS "row", * FROM composerHeaders WHERE composerId IN (SELECT value FROM json_each(?)) ORDER BY composerId;

-- name: header_workspaces
SELECT composerId, workspaceId FROM composerHeaders WHERE workspaceId IS NOT NULL ORDER BY composerId;
