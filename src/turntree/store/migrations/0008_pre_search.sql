-- What search keeps of turns: derived, bounded, and made again at will. Nothing here is a fact, no
-- append writes to it, and emptying these tables loses nothing but the time to fill them again.

-- Whoever searches. Row-level security costs a search its index: the policy has to be asked before
-- any operator that might leak what it sees, and neither @@ nor <~> is declared leakproof, so a GIN
-- index would be passed over and every row read. The two functions that search therefore belong to a
-- role of their own, for which these tables, and no others, have a policy that lets all rows
-- through; they take the workspace from the same setting as every policy and compare it themselves.
-- Nobody logs in as it, and it bypasses nothing.
DO $$
DECLARE
  v_way_in text := CASE WHEN current_setting('server_version_num')::int >= 160000 THEN 'SET' ELSE 'MEMBER' END;
BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'turntree_searcher') THEN
    CREATE ROLE turntree_searcher NOLOGIN NOSUPERUSER NOBYPASSRLS;
  END IF;
  -- Whoever sets this up gives functions to it, and goes on replacing them: that takes being let
  -- into it, and having its rights without asking.
  IF NOT (pg_has_role(current_user, 'turntree_searcher', v_way_in)
      AND pg_has_role(current_user, 'turntree_searcher', 'USAGE')) THEN
    GRANT turntree_searcher TO CURRENT_USER;
  END IF;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
  NULL; -- Another database of the same cluster is being set up at this moment.
END $$;

-- The lexemes of a turn, without positions: phrases are looked for in the texts themselves, and a
-- position would cost as much as half a lexeme. recipe says what was kept and how it was taken apart.
CREATE TABLE turntree.search_documents (
  workspace_id uuid NOT NULL,
  turn_id uuid NOT NULL,
  recipe smallint NOT NULL,
  words tsvector NOT NULL,
  PRIMARY KEY (workspace_id, turn_id)
);
-- What waits to be sorted in is looked through by every search, and its room is never given back.
CREATE INDEX search_documents_words ON turntree.search_documents USING gin (words)
  WITH (gin_pending_list_limit = 512);

-- How far into the feed each index has come: the words, and one for each embedder. No row means that
-- the turns that were there before it began have not been gone through yet.
CREATE TABLE turntree.search_progress (
  workspace_id uuid NOT NULL,
  index_name text NOT NULL,
  epoch int NOT NULL,
  xid xid8 NOT NULL,
  n bigint NOT NULL,
  PRIMARY KEY (workspace_id, index_name)
);

DO $$
DECLARE
  v_table text;
BEGIN
  FOREACH v_table IN ARRAY ARRAY['search_documents', 'search_progress'] LOOP
    EXECUTE format('ALTER TABLE turntree.%I ENABLE ROW LEVEL SECURITY', v_table);
    EXECUTE format('ALTER TABLE turntree.%I FORCE ROW LEVEL SECURITY', v_table);
    EXECUTE format($p$CREATE POLICY workspace ON turntree.%I TO turntree_app, turntree_reader
      USING (workspace_id = nullif(current_setting('turntree.workspace', true), '')::uuid)$p$, v_table);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON turntree.%I TO turntree_app', v_table);
    EXECUTE format('GRANT SELECT ON turntree.%I TO turntree_reader', v_table);
  END LOOP;
END $$;
CREATE POLICY searcher ON turntree.search_documents TO turntree_searcher USING (true);
GRANT SELECT, DELETE ON turntree.search_documents TO turntree_searcher;
GRANT USAGE ON SCHEMA turntree TO turntree_searcher;
-- What it filters by, behind the same policies as for everybody.
GRANT SELECT ON turntree.turns, turntree.segments, turntree.sessions, turntree.session_names,
  turntree.session_reach, turntree.message_files TO turntree_searcher;

-- Makes the table of meanings where pgvector 0.8 or later can be had, and says whether it is there.
-- A function, because the extension may be installed long after this file has run.
CREATE FUNCTION turntree.create_embeddings_table() RETURNS boolean LANGUAGE plpgsql AS $f$
DECLARE
  v_dims int;
  v_vectors text;
BEGIN
  IF to_regclass('turntree.search_embeddings') IS NOT NULL THEN
    RETURN true;
  END IF;
  IF NOT EXISTS (SELECT FROM pg_available_extension_versions
      WHERE name = 'vector' AND version ~ '^(0\.([89]|[1-9][0-9])|[1-9])') THEN
    RETURN false;
  END IF;
  BEGIN
    CREATE EXTENSION IF NOT EXISTS vector;
  EXCEPTION WHEN insufficient_privilege THEN
    RETURN false; -- Its owner has to install it first.
  END;
  SELECT quote_ident(n.nspname) INTO v_vectors FROM pg_extension e
    JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'vector';
  -- Vectors of different embedders are never compared, and each has its own length. Half precision
  -- halves a row. The index knows the signs of the numbers only, a 16th of that again; the best of
  -- what it proposes are compared by the numbers themselves.
  EXECUTE format('CREATE TABLE turntree.search_embeddings (
    workspace_id uuid NOT NULL,
    turn_id uuid NOT NULL,
    embedder text NOT NULL,
    vector %s.halfvec NOT NULL,
    PRIMARY KEY (workspace_id, turn_id, embedder)
  )', v_vectors);
  FOREACH v_dims IN ARRAY ARRAY[384, 768, 1024, 1536] LOOP
    EXECUTE format('CREATE INDEX search_embeddings_%1$s ON turntree.search_embeddings
      USING hnsw ((%2$s.binary_quantize(vector)::bit(%1$s)) %2$s.bit_hamming_ops) WITH (m = 12)
      WHERE %2$s.vector_dims(vector) = %1$s', v_dims, v_vectors);
  END LOOP;
  ALTER TABLE turntree.search_embeddings ENABLE ROW LEVEL SECURITY;
  ALTER TABLE turntree.search_embeddings FORCE ROW LEVEL SECURITY;
  CREATE POLICY workspace ON turntree.search_embeddings TO turntree_app, turntree_reader
    USING (workspace_id = nullif(current_setting('turntree.workspace', true), '')::uuid);
  CREATE POLICY searcher ON turntree.search_embeddings TO turntree_searcher USING (true);
  GRANT SELECT, INSERT, UPDATE, DELETE ON turntree.search_embeddings TO turntree_app;
  GRANT SELECT ON turntree.search_embeddings TO turntree_reader;
  GRANT SELECT, DELETE ON turntree.search_embeddings TO turntree_searcher;
  RETURN true;
END $f$;
SELECT turntree.create_embeddings_table();
