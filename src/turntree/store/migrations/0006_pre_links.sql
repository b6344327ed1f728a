-- What an event says of two things, as rows that can be looked up from either of them, and at place -1
-- what a turn's header says it came from. Only events that tell of resources, policies, forks, interruptions and the like leave any: what a turn's own
-- rows tell already is not written twice.

-- A slim projection: the events' bodies are the truth. valid_from and valid_to are when it was so, which
-- need not be when it was recorded; holder is whom an end has to name to end it.
CREATE TABLE turntree.event_links (
  workspace_id uuid NOT NULL,
  stream_id uuid NOT NULL,
  seq int NOT NULL,
  sequence smallint NOT NULL,
  kind text NOT NULL,
  from_kind text NOT NULL,
  from_id text NOT NULL,
  to_kind text NOT NULL,
  to_id text NOT NULL,
  holder text,
  valid_from timestamptz NOT NULL,
  valid_to timestamptz,
  PRIMARY KEY (workspace_id, stream_id, seq, sequence)
);
CREATE INDEX event_links_from ON turntree.event_links (workspace_id, from_id);
CREATE INDEX event_links_to ON turntree.event_links (workspace_id, to_id);
-- Policies and resources are asked for by kind: what was active, what was held at a moment.
CREATE INDEX event_links_kind ON turntree.event_links (workspace_id, kind, valid_from);

CREATE TRIGGER refuse_update BEFORE UPDATE ON turntree.event_links FOR EACH ROW
  EXECUTE FUNCTION turntree.refuse_change();
CREATE TRIGGER refuse_delete BEFORE DELETE ON turntree.event_links FOR EACH ROW
  EXECUTE FUNCTION turntree.refuse_change();
CREATE TRIGGER refuse_truncate BEFORE TRUNCATE ON turntree.event_links
  EXECUTE FUNCTION turntree.refuse_change();
CREATE TRIGGER importer_workspace BEFORE INSERT ON turntree.event_links FOR EACH ROW
  EXECUTE FUNCTION turntree.check_importer();
ALTER TABLE turntree.event_links ENABLE ROW LEVEL SECURITY;
ALTER TABLE turntree.event_links FORCE ROW LEVEL SECURITY;
CREATE POLICY workspace ON turntree.event_links
  USING (workspace_id = nullif(current_setting('turntree.workspace', true), '')::uuid);
GRANT SELECT, INSERT ON turntree.event_links TO turntree_app, turntree_importer;
GRANT SELECT ON turntree.event_links TO turntree_reader;
