-- Meanings of more than turns: a vector belongs to anything that has an address and a text.
--
-- kind says what it is of, so that a question can be about programs alone. digest is the sha256 of the text
-- that was embedded, where that text may change or was given by somebody: whoever fills the table compares
-- it and embeds only what is new. A turn's own text never changes, so its vector has none.

-- The table is made where pgvector can be had, perhaps long after this file has run, so what changes it is a
-- function around the one that makes it.
ALTER FUNCTION turntree.create_embeddings_table() RENAME TO make_meanings;
CREATE FUNCTION turntree.create_embeddings_table() RETURNS boolean LANGUAGE plpgsql AS $f$
DECLARE
  v_dims int;
  v_vectors text;
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
  -- An index that knows the signs of the numbers only has to propose nearly a hundred times what is asked for
  -- before nineteen of twenty nearest are among it. It knows the numbers themselves now, in half precision.
  SELECT quote_ident(n.nspname) INTO v_vectors FROM pg_extension e
    JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'vector';
  FOREACH v_dims IN ARRAY ARRAY[384, 768, 1024, 1536] LOOP
    EXECUTE format('DROP INDEX turntree.search_embeddings_%s', v_dims);
    EXECUTE format('CREATE INDEX search_embeddings_%1$s ON turntree.search_embeddings
      USING hnsw ((vector::%2$s.halfvec(%1$s)) %2$s.halfvec_cosine_ops) WITH (m = 12, ef_construction = 64)
      WHERE %2$s.vector_dims(vector) = %1$s', v_dims, v_vectors);
  END LOOP;
  RETURN true;
END $f$;
SELECT turntree.create_embeddings_table();

-- What is found may be narrowed down by tags, behind the same policy as for everybody.
GRANT SELECT ON turntree.tags TO turntree_searcher;

-- Its columns are named after what they hold now.
DROP FUNCTION IF EXISTS turntree.stale_embeddings(uuid);
