-- Meanings of more than turns: a vector belongs to anything that has an address and a text.
--
-- kind says what it is of, so that a question can be about programs alone. digest is the sha256 of the text
-- that was embedded, where that text may change or was given by somebody: whoever fills the table compares
-- it and embeds only what is new. A turn's own text never changes, so its vector has none.

-- The table is made where pgvector can be had, perhaps long after this file has run, so what changes it is a
-- function around the one that makes it.
ALTER FUNCTION turntree.prepare_meanings() RENAME TO make_meanings;
CREATE FUNCTION turntree.prepare_meanings() RETURNS boolean LANGUAGE plpgsql AS $f$
BEGIN
  IF NOT turntree.make_meanings() THEN
    RETURN false;
  END IF;
  IF EXISTS (SELECT FROM pg_attribute
      WHERE attrelid = 'turntree.search_embeddings'::regclass AND attname = 'kind' AND NOT attisdropped) THEN
    RETURN true;
  END IF;
  ALTER TABLE turntree.search_embeddings RENAME COLUMN turn_id TO node_id;
  ALTER TABLE turntree.search_embeddings
    ADD COLUMN kind text NOT NULL DEFAULT 'turn' CHECK (kind <> ''),
    ADD COLUMN digest turntree.digest;
  -- Says how many there are of a kind before they are compared one by one. Its keys are few, and each is
  -- written once for many rows.
  CREATE INDEX search_embeddings_kinds ON turntree.search_embeddings (workspace_id, embedder, kind);
  RETURN true;
END $f$;
SELECT turntree.prepare_meanings();

-- What is found may be narrowed down by tags, behind the same policy as for everybody.
GRANT SELECT ON turntree.tags TO turntree_searcher;

-- Its columns are named after what they hold now.
DROP FUNCTION IF EXISTS turntree.useless_meanings(uuid);
