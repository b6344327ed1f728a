-- A key belongs to the principal who chose it: another who uses the same word is answered nothing of it, and nobody takes a
-- word from anybody.
DROP INDEX turntree.inbox_keys;
CREATE UNIQUE INDEX inbox_keys ON turntree.inbox (workspace_id, by, key) WHERE key IS NOT NULL;

-- Whose a key was is told by the move that it led to. Only who owns the tables, and only here, passes the walls for it.
ALTER TABLE turntree.session_history NO FORCE ROW LEVEL SECURITY;
ALTER TABLE turntree.answers NO FORCE ROW LEVEL SECURITY, DISABLE TRIGGER refuse_update, ADD COLUMN by text;
UPDATE turntree.answers a SET by = h.by FROM turntree.session_history h
  WHERE h.workspace_id = a.workspace_id AND h.session_id = a.session_id AND h.version = a.version;
ALTER TABLE turntree.answers FORCE ROW LEVEL SECURITY, ENABLE TRIGGER refuse_update, ALTER COLUMN by SET NOT NULL,
  DROP CONSTRAINT answers_pkey, ADD CONSTRAINT answers_pkey PRIMARY KEY (workspace_id, by, key);
ALTER TABLE turntree.session_history FORCE ROW LEVEL SECURITY;
DROP FUNCTION IF EXISTS turntree.find_idempotent_result(uuid, text, uuid, text[]);
