-- Other tools' transcripts: their records as they came, and which turns were made from which.

-- Records, packed many at a time. Unpacked, a block begins with a line that says where each record
-- stood; digest is the sha256 of that whole text. What it says mostly stands in the bodies of the
-- turns that were made of it, so it is packed against their texts, which makes it a third as large:
-- it leans on these turns and on what was too large for their messages. spans holds two numbers for
-- each turn, those of its first and its last record here. Where a record was erased, the text is no
-- longer the one that came, and now is the digest of what is left.
CREATE TABLE turntree.raw_blocks (
  workspace_id uuid NOT NULL,
  digest turntree.digest NOT NULL,
  now turntree.digest,
  leaning boolean NOT NULL,
  packed bytea NOT NULL,
  turns uuid[] NOT NULL,
  spans int[] NOT NULL,
  objects bytea[] NOT NULL,
  PRIMARY KEY (workspace_id, digest),
  CHECK (now IS NULL OR NOT leaning),
  CHECK (cardinality(spans) = 2 * cardinality(turns))
);
-- Packed bytes do not get smaller by trying again.
ALTER TABLE turntree.raw_blocks ALTER COLUMN packed SET STORAGE EXTERNAL;

-- What other tools call the things that are read together: a number each, for their names are long
-- and thousands of turns come from one.
CREATE TABLE turntree.bundles (
  workspace_id uuid NOT NULL,
  number int NOT NULL GENERATED ALWAYS AS IDENTITY,
  origin text NOT NULL,
  bundle text NOT NULL,
  PRIMARY KEY (workspace_id, number),
  UNIQUE (workspace_id, origin, bundle)
);

-- What a turn was made from. A turn that a tool copied into another file has several sources.
CREATE TABLE turntree.turn_sources (
  workspace_id uuid NOT NULL,
  turn_id uuid NOT NULL,
  bundle int NOT NULL,
  record_first int NOT NULL,
  record_last int NOT NULL,
  projector int NOT NULL,
  key text NOT NULL,
  PRIMARY KEY (workspace_id, turn_id, bundle),
  CHECK (record_first <= record_last)
);
CREATE INDEX turn_sources_bundle ON turntree.turn_sources (workspace_id, bundle);

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

-- Sessions that were written for other tools to continue, and the turn that each of them continues: by these
-- an import knows the turns that we wrote ourselves. mark: how the ids of our records end, wherever the tool copies
-- them, and last_id is the last of these. Without a mark, ours are those in the first bytes of the file.
CREATE TABLE turntree.checkouts (
  workspace_id uuid NOT NULL,
  origin text NOT NULL,
  session text NOT NULL,
  turn_id uuid NOT NULL,
  file text NOT NULL,
  bytes bigint NOT NULL,
  mark text,
  last_id text,
  by text NOT NULL,
  checked_out_at timestamptz NOT NULL,
  PRIMARY KEY (workspace_id, origin, session),
  FOREIGN KEY (workspace_id, turn_id) REFERENCES turntree.turns,
  CHECK (bytes > 0),
  CHECK (mark <> ''),
  CHECK ((mark IS NULL) = (last_id IS NULL))
);

-- The one change a block may undergo: with a message, the eraser takes out its records.
CREATE FUNCTION turntree.check_record_erasure() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF current_user <> 'turntree_eraser' THEN
    RAISE EXCEPTION 'facts are permanent: raw_blocks refuses update' USING ERRCODE = 'TT003';
  END IF;
  IF (NEW.workspace_id, NEW.digest, NEW.turns, NEW.spans) IS DISTINCT FROM
      (OLD.workspace_id, OLD.digest, OLD.turns, OLD.spans) OR NEW.now IS NULL THEN
    RAISE EXCEPTION 'an erasure replaces records and nothing else' USING ERRCODE = 'TT003';
  END IF;
  RETURN NEW;
END $$;

SELECT turntree.make_append_only('raw_blocks', false, p_update => 'check_record_erasure');
SELECT turntree.make_append_only('bundles', true);
SELECT turntree.make_append_only('turn_sources', true);
SELECT turntree.make_append_only('checkouts', false);
SELECT turntree.enable_row_security('imports');
GRANT INSERT, UPDATE ON turntree.imports TO turntree_app;
GRANT SELECT ON turntree.raw_blocks, turntree.bundles, turntree.turn_sources, turntree.imports TO turntree_eraser;
GRANT UPDATE (now, leaning, packed, objects) ON turntree.raw_blocks TO turntree_eraser;
