-- Other tools' transcripts: their records as they came, and which turns were made from which.

-- Records, packed many at a time. Unpacked, a block begins with a line that says where each record
-- stood; digest is the sha256 of that whole text.
CREATE TABLE turntree.raw_blocks (
  workspace_id uuid NOT NULL,
  digest turntree.digest NOT NULL,
  packed bytea NOT NULL,
  PRIMARY KEY (workspace_id, digest)
);
-- Packed bytes do not get smaller by trying again.
ALTER TABLE turntree.raw_blocks ALTER COLUMN packed SET STORAGE EXTERNAL;

-- What a turn was made from. A turn that a tool copied into another file has several sources.
CREATE TABLE turntree.turn_sources (
  workspace_id uuid NOT NULL,
  turn_id uuid NOT NULL,
  record_first int NOT NULL,
  record_last int NOT NULL,
  projector int NOT NULL,
  origin text NOT NULL,
  bundle text NOT NULL,
  key text NOT NULL,
  PRIMARY KEY (workspace_id, turn_id, origin, bundle),
  CHECK (record_first <= record_last)
);
CREATE INDEX turn_sources_bundle ON turntree.turn_sources (workspace_id, origin, bundle);

-- How far each bundle has been read: a cursor, not a fact.
CREATE TABLE turntree.imports (
  workspace_id uuid NOT NULL,
  origin text NOT NULL,
  bundle text NOT NULL,
  stamp text NOT NULL,
  projector int NOT NULL,
  redactor int NOT NULL,
  records int NOT NULL,
  raw_bytes bigint NOT NULL,
  prefix turntree.digest NOT NULL,
  blocks bytea[] NOT NULL,
  heads jsonb NOT NULL,
  report jsonb NOT NULL,
  imported_at timestamptz NOT NULL,
  PRIMARY KEY (workspace_id, origin, bundle)
);

DO $$
DECLARE
  v_table text;
BEGIN
  FOREACH v_table IN ARRAY ARRAY['raw_blocks', 'turn_sources'] LOOP
    EXECUTE format('CREATE TRIGGER refuse_update BEFORE UPDATE ON turntree.%I FOR EACH ROW
      EXECUTE FUNCTION turntree.refuse_change()', v_table);
    EXECUTE format('CREATE TRIGGER refuse_delete BEFORE DELETE ON turntree.%I FOR EACH ROW
      EXECUTE FUNCTION turntree.refuse_change()', v_table);
    EXECUTE format('CREATE TRIGGER refuse_truncate BEFORE TRUNCATE ON turntree.%I
      EXECUTE FUNCTION turntree.refuse_change()', v_table);
    EXECUTE format('GRANT SELECT, INSERT ON turntree.%I TO turntree_app', v_table);
  END LOOP;
  FOREACH v_table IN ARRAY ARRAY['raw_blocks', 'turn_sources', 'imports'] LOOP
    EXECUTE format('ALTER TABLE turntree.%I ENABLE ROW LEVEL SECURITY', v_table);
    EXECUTE format('ALTER TABLE turntree.%I FORCE ROW LEVEL SECURITY', v_table);
    EXECUTE format($p$CREATE POLICY workspace ON turntree.%I
      USING (workspace_id = nullif(current_setting('turntree.workspace', true), '')::uuid)$p$, v_table);
    EXECUTE format('GRANT SELECT ON turntree.%I TO turntree_reader', v_table);
  END LOOP;
END $$;
GRANT SELECT, INSERT, UPDATE ON turntree.imports TO turntree_app;
CREATE TRIGGER importer_workspace BEFORE INSERT ON turntree.turn_sources FOR EACH ROW
  EXECUTE FUNCTION turntree.check_importer();
GRANT SELECT, INSERT ON turntree.turn_sources TO turntree_importer;
