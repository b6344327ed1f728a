-- An object is found by its digest, and the digest of what a private session holds may be known to others: from a time when
-- they were granted access, or from a copy. So the ledger notes which turns an object is part of, and who stored its bytes.

-- Which turns refer to an object in a message. A run has the id of the turn that it becomes, so what an open run or a waiting
-- message refers to is noted under that id. Derived from bodies and payloads; repair writes it again.
CREATE TABLE turntree.object_holders (
  workspace_id uuid NOT NULL,
  turn_id uuid NOT NULL,
  digest turntree.digest NOT NULL,
  PRIMARY KEY (workspace_id, turn_id, digest)
);
CREATE INDEX object_holders_digest ON turntree.object_holders (workspace_id, digest);

-- Who stored the bytes of an object: they have them in any case, and may refer to them. Without it, a principal who stores
-- the same bytes as a private session could not read them back.
CREATE TABLE turntree.object_writers (
  workspace_id uuid NOT NULL,
  digest turntree.digest NOT NULL,
  by text NOT NULL,
  PRIMARY KEY (workspace_id, digest, by)
);

-- Versions of programs refer to objects too: their configs.
CREATE INDEX program_versions_digest ON turntree.program_versions (workspace_id, digest);

-- Only the owner of the tables, and only here, reads every workspace.
ALTER TABLE turntree.turn_bodies NO FORCE ROW LEVEL SECURITY;
ALTER TABLE turntree.run_payloads NO FORCE ROW LEVEL SECURITY;
ALTER TABLE turntree.inbox NO FORCE ROW LEVEL SECURITY;
INSERT INTO turntree.object_holders (workspace_id, turn_id, digest)
  SELECT DISTINCT x.workspace_id, x.turn_id, decode(substr(p.j ->> 'object', 8), 'hex')
    FROM (SELECT workspace_id, turn_id, body FROM turntree.turn_bodies UNION ALL
      SELECT workspace_id, run_id, payload FROM turntree.run_payloads UNION ALL
      SELECT workspace_id, run_id, payload FROM turntree.inbox WHERE payload IS NOT NULL) x,
      string_to_table(x.body, E'\n') l (line),
      -- jsonb holds no NUL; the words do not matter here.
      jsonb_array_elements(replace(l.line, '\u0000', '\u0020')::jsonb -> 'parts') p (j)
    WHERE position('"object":"sha256:' IN l.line) > 0 AND p.j ->> 'kind' IN ('lifted', 'image', 'audio', 'file')
      AND p.j ->> 'object' ~ '^sha256:[0-9a-f]{64}$';
ALTER TABLE turntree.turn_bodies FORCE ROW LEVEL SECURITY;
ALTER TABLE turntree.run_payloads FORCE ROW LEVEL SECURITY;
ALTER TABLE turntree.inbox FORCE ROW LEVEL SECURITY;

SELECT turntree.make_append_only('object_writers', false, p_delete => 'check_object_deletion');
SELECT turntree.enable_row_security('object_holders');
GRANT INSERT, UPDATE, DELETE ON turntree.object_holders TO turntree_app;
GRANT INSERT ON turntree.object_holders TO turntree_importer;
CREATE TRIGGER importer_workspace BEFORE INSERT ON turntree.object_holders FOR EACH ROW
  EXECUTE FUNCTION turntree.check_import_workspace();
GRANT SELECT, DELETE ON turntree.object_holders, turntree.object_writers TO turntree_eraser;
GRANT SELECT ON turntree.object_holders, turntree.object_writers, turntree.inbox TO turntree_searcher;
