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

SELECT turntree.wall_in_facts('raw_blocks', false);
SELECT turntree.wall_in_facts('turn_sources', true);
SELECT turntree.wall_in('imports');
GRANT INSERT, UPDATE ON turntree.imports TO turntree_app;
