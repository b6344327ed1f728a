-- Who imported what. A session follows its tool for the principal that imported it, so two people may import transcripts
-- of the same name: each has a session and a cursor of their own. What was imported before this was noted is the system's.
ALTER TABLE turntree.sessions ADD COLUMN imported_by text DEFAULT 'system:import';
ALTER TABLE turntree.sessions ALTER COLUMN imported_by DROP DEFAULT;
DROP INDEX turntree.sessions_origin;
CREATE UNIQUE INDEX sessions_origin ON turntree.sessions (workspace_id, origin, origin_session_id, imported_by)
  WHERE origin IS NOT NULL;

ALTER TABLE turntree.imports ADD COLUMN by text NOT NULL DEFAULT 'system:import';
ALTER TABLE turntree.imports DROP CONSTRAINT imports_pkey, ADD PRIMARY KEY (workspace_id, origin, bundle, by);

-- An import moves a session as the principal that imports, so its kind tells such a move from one that a person made:
-- 'import' follows the tool that the session came from, 'handoff' one that it was checked out for.
ALTER DOMAIN turntree.move_kind DROP CONSTRAINT move_kind_check;
ALTER DOMAIN turntree.move_kind ADD CONSTRAINT move_kind_check
  CHECK (VALUE IN ('create', 'advance', 'fork', 'rewind', 'reset', 'undo', 'import', 'handoff'));
