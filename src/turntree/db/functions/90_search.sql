-- Search: turns by words and by embeddings.
--
-- The functions declared SECURITY DEFINER belong to turntree_searcher, for which the tables of search have a policy
-- that passes all rows (0001_pre_ledger.sql says why). Each reads the workspace from the same setting as the policies
-- and names it in each statement: unset it is null, and null equals nothing.

-- Earlier releases had no parameter for archived turns.
DROP FUNCTION IF EXISTS turntree.search_filter(uuid[], text[], text[], text[], text[], timestamptz, timestamptz, int);
DROP FUNCTION IF EXISTS turntree.search_words(tsquery[], tsquery[], int, boolean, text[], text[], text[], text[],
  timestamptz, timestamptz, int, int);
DROP FUNCTION IF EXISTS turntree.search_places(tsquery[], boolean, text[], text[], text[], text[], timestamptz, timestamptz, int);
DROP FUNCTION IF EXISTS turntree.search_names(tsquery, text[], text[], text[], text[], timestamptz, timestamptz, int);
DROP FUNCTION IF EXISTS turntree.search_embeddings(text, real[], tsquery, boolean, text[], text[], text[], text[],
  timestamptz, timestamptz, int, int, int);

-- Returns whether a search may return a turn: the viewer may see it, and it is archived or not, as asked. The caller
-- reads archived_segments once, for all turns.
CREATE OR REPLACE FUNCTION turntree.is_listed(
  p_ws uuid, p_turn uuid, p_all boolean, p_segments uuid[], p_lows int[], p_archived boolean)
RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT (p_all OR turntree.can_see_turn(p_ws, p_turn)) AND p_archived = EXISTS (SELECT FROM turntree.turns t
    JOIN unnest(p_segments, p_lows) AS a (segment_id, low) ON a.segment_id = t.segment_id AND t.depth >= a.low
    WHERE t.workspace_id = p_ws AND t.id = p_turn)
$$;

-- Returns the turns that pass the filters, among the given ones or among all; newest first.
CREATE OR REPLACE FUNCTION turntree.search_filter(
  p_turns uuid[], p_sessions text[], p_origins text[], p_models text[], p_files text[],
  p_after timestamptz, p_before timestamptz, p_archived boolean, p_limit int)
RETURNS TABLE (turn_id uuid) LANGUAGE plpgsql SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
DECLARE
  v_ws uuid := turntree.current_workspace();
  v_segments uuid[];
  v_lows int[];
BEGIN
  SELECT array_agg(a.segment_id), array_agg(a.low) INTO v_segments, v_lows FROM turntree.archived_segments(v_ws) a;
  RETURN QUERY
  -- How deep the given sessions reached in each segment, and everything above.
  WITH RECURSIVE asked AS (
    SELECT DISTINCT s.id FROM turntree.sessions s
      JOIN turntree.session_names n ON n.workspace_id = v_ws AND n.session_id = s.id
      WHERE s.workspace_id = v_ws AND (p_sessions IS NULL OR n.name LIKE ANY (p_sessions))
        AND (p_origins IS NULL OR lower(s.origin) LIKE ANY (p_origins))
        AND (p_sessions IS NOT NULL OR p_origins IS NOT NULL)
  ), chain (segment_id, high) AS (
    SELECT r.segment_id, r.max_depth FROM asked a
      JOIN turntree.session_reach r ON r.workspace_id = v_ws AND r.session_id = a.id
    UNION
    SELECT s.parent_id, s.fork_depth FROM chain c, LATERAL (SELECT parent_id, fork_depth FROM turntree.segments
      WHERE workspace_id = v_ws AND id = c.segment_id AND parent_id IS NOT NULL OFFSET 0) s
  ), held AS MATERIALIZED (
    SELECT segment_id, max(high) AS high FROM chain GROUP BY segment_id
  )
  SELECT t.id FROM turntree.turns t
    WHERE t.workspace_id = v_ws AND (p_turns IS NULL OR t.id = ANY (p_turns))
      AND (p_after IS NULL OR t.started_at >= p_after) AND (p_before IS NULL OR t.started_at < p_before)
      AND (p_models IS NULL OR lower(t.model) LIKE ANY (p_models))
      AND (p_sessions IS NULL AND p_origins IS NULL OR EXISTS (SELECT FROM held h
        WHERE h.segment_id = t.segment_id AND h.high >= t.depth))
      AND (p_files IS NULL OR NOT EXISTS (SELECT FROM unnest(p_files) p WHERE NOT EXISTS (
        SELECT FROM turntree.message_files f WHERE f.workspace_id = v_ws AND f.turn_id = t.id
          AND (f.path LIKE p OR f.path LIKE '%/' || p))))
      AND (v_segments IS NULL AND NOT p_archived OR p_archived = EXISTS (SELECT FROM unnest(v_segments, v_lows) AS a (segment_id, low)
        WHERE a.segment_id = t.segment_id AND a.low <= t.depth))
    ORDER BY t.id DESC LIMIT p_limit;
END $$;

-- Returns whether a workspace has so many of all documents that the index of lexemes, which has those of all
-- workspaces, finds its turns faster than reading each of its documents. The planner cannot tell: to it, testing a
-- document with a long query costs as much as comparing two numbers. Among 10,000 turns it took 200 ms instead of 15.
CREATE OR REPLACE FUNCTION turntree.searches_by_lexeme(p_ws uuid) RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT EXISTS (SELECT FROM turntree.search_documents d WHERE d.workspace_id = p_ws
    OFFSET (SELECT least(greatest(c.reltuples / 20, 500), 5000)::int FROM pg_class c
      WHERE c.oid = 'turntree.search_documents'::regclass))
$$;

-- Returns turns by their words, best first. p_ladder holds queries from the strictest, all words, to the loosest, a
-- few of them; the first that finds enough is ranked. The fewer candidates contain a word, the more it counts: each row
-- says how much each word counts, null if no candidate has it.
CREATE OR REPLACE FUNCTION turntree.search_words(
  p_ladder tsquery[], p_terms tsquery[], p_terms_min int, p_filtered boolean,
  p_sessions text[], p_origins text[], p_models text[], p_files text[], p_after timestamptz, p_before timestamptz,
  p_archived boolean, p_candidates int, p_limit int)
RETURNS TABLE (turn_id uuid, score numeric, rarities float8[]) LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, turntree, pg_temp SET plan_cache_mode = force_custom_plan SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
  v_ws uuid := turntree.current_workspace();
  v_query tsquery;
  v_hits uuid[];
  v_all constant boolean := turntree.can_see_all_sessions();
  v_by_lexeme constant boolean := turntree.searches_by_lexeme(v_ws);
  v_open boolean;
  v_segments uuid[];
  v_lows int[];
BEGIN
  SELECT array_agg(a.segment_id), array_agg(a.low) INTO v_segments, v_lows FROM turntree.archived_segments(v_ws) a;
  v_open := v_all AND v_segments IS NULL AND NOT p_archived;
  FOREACH v_query IN ARRAY p_ladder LOOP
    -- It is not known yet what the filters leave, so use the loosest query.
    CONTINUE WHEN p_filtered;
    -- The first OFFSET 0: otherwise the planner would read the primary key backwards because of the ORDER BY and test
    -- each document instead of using the index of lexemes. The second: visibility is checked newest first, and for no
    -- more turns than needed.
    v_hits := ARRAY(SELECT o.turn_id FROM (SELECT h.turn_id FROM (SELECT d.workspace_id, d.turn_id
          FROM turntree.search_documents d
          WHERE d.lexemes @@ v_query AND (v_by_lexeme OR d.workspace_id = v_ws) OFFSET 0) h
        WHERE h.workspace_id = v_ws ORDER BY h.turn_id DESC OFFSET 0) o
      WHERE v_open OR turntree.is_listed(v_ws, o.turn_id, v_all, v_segments, v_lows, p_archived) LIMIT p_candidates);
    EXIT WHEN cardinality(v_hits) >= p_limit;
  END LOOP;
  IF p_filtered THEN
    v_hits := ARRAY(SELECT h.turn_id FROM (SELECT d.workspace_id, d.turn_id FROM turntree.search_documents d
        WHERE d.lexemes @@ v_query AND (v_by_lexeme OR d.workspace_id = v_ws) OFFSET 0) h WHERE h.workspace_id = v_ws);
    v_hits := ARRAY(SELECT f.turn_id FROM turntree.search_filter(
      v_hits, p_sessions, p_origins, p_models, p_files, p_after, p_before, p_archived, p_candidates) f);
  END IF;
  RETURN QUERY
  -- strip copies a document, which has no positions to lose: a large one is otherwise read again for each term.
  WITH held AS MATERIALIZED (
    SELECT w.turn_id, x.place
      FROM (SELECT d.turn_id, strip(d.lexemes) AS lexemes FROM turntree.search_documents d
          WHERE d.workspace_id = v_ws AND d.turn_id = ANY (v_hits) OFFSET 0) w,
        LATERAL (SELECT x.place FROM unnest(p_terms) WITH ORDINALITY AS x (term, place) WHERE w.lexemes @@ x.term OFFSET 0) x
  ), weight AS MATERIALIZED (
    SELECT h.place, ln(1 + cardinality(v_hits)::float8 / count(*)) AS rarity FROM held h GROUP BY h.place
  )
  -- Rounded, because sums of the same numbers in another order may differ in their last digits.
  SELECT h.turn_id, round(sum(w.rarity)::numeric, 6), (SELECT array_agg(v.rarity ORDER BY x.place)
      FROM generate_subscripts(p_terms, 1) x (place) LEFT JOIN weight v USING (place)) FROM held h JOIN weight w USING (place)
    GROUP BY h.turn_id HAVING count(*) >= p_terms_min
    ORDER BY 2 DESC, 1 DESC LIMIT p_limit;
END $$;

-- Returns the positions of all turns that contain the words of a query, newest first, at most p_limit. The first query
-- of the ladder that finds anything counts: what is shown while a person types should not grow with each letter.
CREATE OR REPLACE FUNCTION turntree.search_places(
  p_ladder tsquery[], p_filtered boolean, p_sessions text[], p_origins text[], p_models text[], p_files text[],
  p_after timestamptz, p_before timestamptz, p_archived boolean, p_limit int)
RETURNS TABLE (segment bigint, depth int) LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, turntree, pg_temp SET plan_cache_mode = force_custom_plan SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
  v_ws uuid := turntree.current_workspace();
  v_query tsquery;
  v_hits uuid[];
  v_all constant boolean := turntree.can_see_all_sessions();
  v_by_lexeme constant boolean := turntree.searches_by_lexeme(v_ws);
  v_open boolean;
  v_segments uuid[];
  v_lows int[];
BEGIN
  SELECT array_agg(a.segment_id), array_agg(a.low) INTO v_segments, v_lows FROM turntree.archived_segments(v_ws) a;
  v_open := v_all AND v_segments IS NULL AND NOT p_archived;
  FOREACH v_query IN ARRAY p_ladder LOOP
    IF p_filtered THEN
      v_hits := ARRAY(SELECT h.turn_id FROM (SELECT d.workspace_id, d.turn_id FROM turntree.search_documents d
          WHERE d.lexemes @@ v_query AND (v_by_lexeme OR d.workspace_id = v_ws) OFFSET 0) h WHERE h.workspace_id = v_ws);
      v_hits := ARRAY(SELECT f.turn_id FROM turntree.search_filter(
        v_hits, p_sessions, p_origins, p_models, p_files, p_after, p_before, p_archived, p_limit) f);
    END IF;
    RETURN QUERY SELECT coalesce(h.segment, w.number), coalesce(h.depth, w.depth) FROM (
        SELECT d.workspace_id, d.turn_id, d.segment, d.depth FROM turntree.search_documents d
          WHERE d.lexemes @@ v_query AND (v_by_lexeme AND v_hits IS NULL OR d.workspace_id = v_ws)
            AND (v_hits IS NULL OR d.turn_id = ANY (v_hits)) OFFSET 0) h
      -- Only for documents that were written before documents had places.
      LEFT JOIN LATERAL (SELECT s.number, t.depth FROM turntree.turns t
          JOIN turntree.segments s ON s.workspace_id = v_ws AND s.id = t.segment_id
        WHERE h.segment IS NULL AND t.workspace_id = v_ws AND t.id = h.turn_id OFFSET 0) w ON true
      WHERE h.workspace_id = v_ws AND (v_open OR turntree.is_listed(v_ws, h.turn_id, v_all, v_segments, v_lows, p_archived))
        AND coalesce(h.segment, w.number) IS NOT NULL
      ORDER BY h.turn_id DESC LIMIT p_limit;
    EXIT WHEN FOUND;
  END LOOP;
END $$;

-- Returns the turns that contain any of some words, and how rare each word is. A message is not a query: most of its
-- words do not occur near its subject. A word that occurs in more than p_common turns says little and would cost
-- much, so it is skipped.
CREATE OR REPLACE FUNCTION turntree.route_words(p_terms tsquery[], p_common int, p_limit int)
RETURNS TABLE (turn_id uuid, place int, rarity float8) LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, turntree, pg_temp SET plan_cache_mode = force_custom_plan SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
  v_ws uuid := turntree.current_workspace();
  -- The number of turns: counted if there are few, else the planner's estimate.
  v_all float8 := (SELECT count(*) FROM (SELECT FROM turntree.search_documents d WHERE d.workspace_id = v_ws
    LIMIT 2 * p_common) x);
  v_sees_all constant boolean := turntree.can_see_all_sessions();
  v_open boolean;
  v_segments uuid[];
  v_lows int[];
BEGIN
  SELECT array_agg(a.segment_id), array_agg(a.low) INTO v_segments, v_lows FROM turntree.archived_segments(v_ws) a;
  v_open := v_sees_all AND v_segments IS NULL;
  IF v_all >= 2 * p_common THEN
    v_all := greatest(v_all, (SELECT c.reltuples FROM pg_class c WHERE c.oid = 'turntree.search_documents'::regclass));
  END IF;
  RETURN QUERY
  WITH held AS MATERIALIZED (
    SELECT x.place::int AS place, h.turn_id FROM unnest(p_terms) WITH ORDINALITY AS x (term, place),
      LATERAL (SELECT d.turn_id FROM turntree.search_documents d
        WHERE d.workspace_id = v_ws AND d.lexemes @@ x.term
          AND (v_open OR turntree.is_listed(v_ws, d.turn_id, v_sees_all, v_segments, v_lows, false))
        LIMIT p_common + 1) h
  ), weight AS MATERIALIZED (
    SELECT h.place, ln(1 + v_all / count(*)) AS rarity FROM held h GROUP BY h.place HAVING count(*) <= p_common
  ), best AS MATERIALIZED (
    SELECT h.turn_id, sum(w.rarity) AS total FROM held h JOIN weight w USING (place)
      GROUP BY h.turn_id ORDER BY 2 DESC, 1 DESC LIMIT p_limit
  )
  SELECT h.turn_id, h.place, w.rarity FROM best b JOIN held h USING (turn_id) JOIN weight w USING (place)
    ORDER BY b.total DESC, h.turn_id DESC, h.place;
END $$;

-- Returns turns by filters alone, newest first: there are no words to rank by.
CREATE OR REPLACE FUNCTION turntree.search_names(
  p_facets tsquery, p_sessions text[], p_origins text[], p_models text[], p_files text[],
  p_after timestamptz, p_before timestamptz, p_archived boolean, p_limit int)
RETURNS TABLE (turn_id uuid) LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, turntree, pg_temp SET plan_cache_mode = force_custom_plan SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
  v_ws uuid := turntree.current_workspace();
  v_hits uuid[];
BEGIN
  IF p_facets IS NOT NULL THEN
    v_hits := ARRAY(SELECT d.turn_id FROM turntree.search_documents d WHERE d.workspace_id = v_ws AND d.lexemes @@ p_facets);
  END IF;
  RETURN QUERY SELECT f.turn_id FROM turntree.search_filter(
    v_hits, p_sessions, p_origins, p_models, p_files, p_after, p_before, p_archived, p_limit) f;
END $$;

-- Returns turns by embedding, nearest first. If the filters leave few, each is compared; otherwise the index proposes
-- some, and continues until enough of them pass.
CREATE OR REPLACE FUNCTION turntree.search_embeddings(
  p_embedder text, p_vector real[], p_facets tsquery, p_filtered boolean,
  p_sessions text[], p_origins text[], p_models text[], p_files text[], p_after timestamptz, p_before timestamptz,
  p_archived boolean, p_exact_max int, p_proposed int, p_limit int)
RETURNS TABLE (turn_id uuid, likeness float8) LANGUAGE plpgsql SECURITY DEFINER AS $$
#variable_conflict use_column
DECLARE
  v_ws uuid := turntree.current_workspace();
  v_few uuid[];
  v_all constant boolean := turntree.can_see_all_sessions();
  v_segments uuid[];
  v_lows int[];
BEGIN
  SELECT array_agg(a.segment_id), array_agg(a.low) INTO v_segments, v_lows FROM turntree.archived_segments(v_ws) a;
  IF p_filtered OR p_archived OR p_facets IS NOT NULL THEN
    v_few := ARRAY(SELECT f.turn_id FROM turntree.search_names(
      p_facets, p_sessions, p_origins, p_models, p_files, p_after, p_before, p_archived, p_exact_max) f);
    IF cardinality(v_few) < p_exact_max THEN
      RETURN QUERY SELECT e.node_id, 1 - (e.vector <=> p_vector::halfvec) FROM turntree.embeddings e
        WHERE e.workspace_id = v_ws AND e.embedder = p_embedder AND e.kind = 'turn' AND e.node_id = ANY (v_few)
        ORDER BY 2 DESC, 1 DESC LIMIT p_limit;
      RETURN;
    END IF;
  END IF;
  PERFORM set_config('hnsw.iterative_scan', 'relaxed_order', true), set_config('hnsw.ef_search', p_proposed::text, true);
  -- The number of dimensions has to be in the text of the query, or the planner cannot match the partial index.
  RETURN QUERY EXECUTE format(
    'WITH proposed AS MATERIALIZED (SELECT e.node_id, e.vector FROM turntree.embeddings e
       WHERE e.workspace_id = $1 AND e.embedder = $2 AND e.kind = ''turn'' AND vector_dims(e.vector) = %1$s
         AND ($5::uuid[] IS NULL OR e.node_id = ANY ($5))
         AND ($7 AND $8 IS NULL AND NOT $10 OR turntree.is_listed($1, e.node_id, $7, $8, $9, $10))
       ORDER BY e.vector::halfvec(%1$s) <=> $3::halfvec(%1$s) LIMIT $4)
     SELECT p.node_id, 1 - (p.vector <=> $3::halfvec(%1$s)) FROM proposed p ORDER BY 2 DESC, 1 DESC LIMIT $6',
    cardinality(p_vector)) USING v_ws, p_embedder, p_vector, p_proposed, v_few, p_limit, v_all, v_segments, v_lows, p_archived;
END $$;

-- Returns the nodes nearest to a vector: turns, programs, anything that was embedded. If the kinds and tags leave
-- few, each is compared; otherwise the index proposes some, and continues until enough of them pass.
CREATE OR REPLACE FUNCTION turntree.nearest_nodes(
  p_embedder text, p_vector real[], p_kinds text[], p_tags text[], p_without uuid,
  p_exact_max int, p_proposed int, p_limit int)
RETURNS TABLE (node_id uuid, kind text, likeness float8) LANGUAGE plpgsql SECURITY DEFINER AS $$
#variable_conflict use_column
DECLARE
  v_ws uuid := turntree.current_workspace();
  v_found int;
  v_few uuid[];
  v_all constant boolean := turntree.can_see_all_sessions();
  v_open boolean;
  v_segments uuid[];
  v_lows int[];
BEGIN
  SELECT array_agg(a.segment_id), array_agg(a.low) INTO v_segments, v_lows FROM turntree.archived_segments(v_ws) a;
  v_open := v_all AND v_segments IS NULL;
  PERFORM set_config('enable_seqscan', 'off', true), set_config('plan_cache_mode', 'force_custom_plan', true);
  -- A node with all the tags has the first one; the others are checked one by one.
  SELECT count(*) INTO v_found FROM (SELECT FROM turntree.tags t
    WHERE p_tags IS NOT NULL AND t.workspace_id = v_ws AND t.tag = p_tags[1] LIMIT p_exact_max + 1) x;
  IF p_tags IS NULL THEN
    SELECT count(*) INTO v_found FROM (SELECT FROM turntree.embeddings e WHERE e.workspace_id = v_ws
      AND e.embedder = p_embedder AND (p_kinds IS NULL OR e.kind = ANY (p_kinds)) LIMIT p_exact_max + 1) x;
  END IF;
  IF v_found <= p_exact_max THEN
    v_few := CASE WHEN p_tags IS NULL THEN
      ARRAY(SELECT e.node_id FROM turntree.embeddings e WHERE e.workspace_id = v_ws
        AND e.embedder = p_embedder AND (p_kinds IS NULL OR e.kind = ANY (p_kinds)))
      ELSE ARRAY(SELECT t.node_id FROM turntree.tags t WHERE t.workspace_id = v_ws AND t.tag = p_tags[1]) END;
    -- Nearest first, so that visibility is checked for no more nodes than requested.
    RETURN QUERY SELECT o.node_id, o.kind, o.likeness FROM (
      SELECT e.node_id, e.kind, 1 - (e.vector <=> p_vector::halfvec) AS likeness FROM turntree.embeddings e
      WHERE e.workspace_id = v_ws AND e.embedder = p_embedder AND e.node_id = ANY (v_few)
        AND (p_kinds IS NULL OR e.kind = ANY (p_kinds)) AND e.node_id IS DISTINCT FROM p_without
        AND (p_tags IS NULL OR NOT EXISTS (SELECT FROM unnest(p_tags) x WHERE NOT EXISTS (SELECT FROM turntree.tags t
          WHERE t.workspace_id = v_ws AND t.node_id = e.node_id AND t.tag = x)))
      ORDER BY 3 DESC, 1 DESC OFFSET 0) o
      WHERE v_open OR o.kind <> 'turn' OR turntree.is_listed(v_ws, o.node_id, v_all, v_segments, v_lows, false) LIMIT p_limit;
    RETURN;
  END IF;
  PERFORM set_config('hnsw.iterative_scan', 'relaxed_order', true), set_config('hnsw.ef_search', p_proposed::text, true),
    -- Only the vector index returns them in order: any other plan would compare all of them.
    set_config('enable_sort', 'off', true), set_config('enable_bitmapscan', 'off', true);
  RETURN QUERY EXECUTE format(
    'WITH proposed AS MATERIALIZED (SELECT e.node_id, e.kind, e.vector FROM turntree.embeddings e
       WHERE e.workspace_id = $1 AND e.embedder = $2 AND vector_dims(e.vector) = %1$s
         AND ($5::text[] IS NULL OR e.kind = ANY ($5)) AND e.node_id IS DISTINCT FROM $6
         AND ($7::text[] IS NULL OR NOT EXISTS (SELECT FROM unnest($7) x WHERE NOT EXISTS (SELECT FROM turntree.tags t
           WHERE t.workspace_id = $1 AND t.node_id = e.node_id AND t.tag = x)))
         AND ($8 OR e.kind <> ''turn'' OR turntree.is_listed($1, e.node_id, $9, $10, $11, false))
       ORDER BY e.vector::halfvec(%1$s) <=> $3::halfvec(%1$s) LIMIT $4)
     SELECT p.node_id, p.kind, 1 - (p.vector <=> $3::halfvec(%1$s)) FROM proposed p ORDER BY 3 DESC, 1 DESC LIMIT $4',
    cardinality(p_vector)) USING v_ws, p_embedder, p_vector, p_limit, p_kinds, p_without, p_tags, v_open, v_all, v_segments, v_lows;
END $$;

-- Returns the similarity of some turns to a vector. A function, because pgvector and its operators may be installed
-- in any schema.
CREATE OR REPLACE FUNCTION turntree.similarity_of(p_embedder text, p_vector real[], p_turns uuid[])
RETURNS TABLE (turn_id uuid, likeness float8) LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
  v_ws uuid := turntree.current_workspace();
BEGIN
  RETURN QUERY SELECT e.node_id, 1 - (e.vector <=> p_vector::halfvec) FROM turntree.embeddings e
    WHERE e.workspace_id = v_ws AND e.embedder = p_embedder AND e.node_id = ANY (p_turns);
END $$;

-- Returns embeddings that no search can use: those of no turn, or of another length than most of their embedder's. A
-- function, because without pgvector there is no table to name. The length is counted on an array, because pgvector's
-- own functions may be in any schema.
CREATE OR REPLACE FUNCTION turntree.stale_embeddings(p_workspace uuid)
RETURNS TABLE (node_id uuid, embedder text) LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
  IF to_regclass('turntree.embeddings') IS NULL THEN
    RETURN;
  END IF;
  RETURN QUERY
  WITH held AS MATERIALIZED (
    SELECT e.node_id, e.embedder, e.kind, cardinality(e.vector::real[]) AS dims FROM turntree.embeddings e
      WHERE e.workspace_id = p_workspace
  ), usual AS (
    SELECT h.embedder, mode() WITHIN GROUP (ORDER BY h.dims) AS dims FROM held h GROUP BY h.embedder
  )
  SELECT h.node_id, h.embedder FROM held h JOIN usual u ON u.embedder = h.embedder
    WHERE h.dims <> u.dims OR h.kind = 'turn' AND NOT EXISTS (
      SELECT FROM turntree.turns t WHERE t.workspace_id = p_workspace AND t.id = h.node_id)
    ORDER BY 1, 2;
END $$;

-- Removes a turn from all indexes, in the transaction that erases one of its messages.
CREATE OR REPLACE FUNCTION turntree.unindex_turn(p_turn uuid) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, turntree, pg_temp AS $$
DECLARE
  v_ws uuid := turntree.current_workspace();
BEGIN
  -- The indexer takes this lock too and checks for erasures before it writes, so words that it read before an erasure
  -- are never written after it.
  PERFORM pg_advisory_xact_lock(hashtextextended('turntree:index:' || v_ws, 0));
  DELETE FROM turntree.search_documents WHERE workspace_id = v_ws AND turn_id = p_turn;
  IF to_regclass('turntree.embeddings') IS NOT NULL THEN
    DELETE FROM turntree.embeddings WHERE workspace_id = v_ws AND node_id = p_turn;
  END IF;
END $$;

-- Functions with the searcher's privileges belong to the searcher, and only our roles may call them.
DO $$
DECLARE
  v_function regprocedure;
  v_vectors text := coalesce((SELECT quote_ident(n.nspname) FROM pg_extension e
    JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'vector'), 'pg_catalog');
BEGIN
  GRANT CREATE ON SCHEMA turntree TO turntree_searcher; -- A new owner needs it.
  FOR v_function IN SELECT oid FROM pg_proc WHERE pronamespace = 'turntree'::regnamespace
      AND proname IN ('search_words', 'search_places', 'route_words', 'search_names', 'search_embeddings', 'nearest_nodes', 'unindex_turn',
        'reader_can_see', 'reader_can_see_all', 'reader_can_see_segment', 'reader_can_see_turn', 'reader_can_see_object',
        'permissions_of', 'notice_preferences', 'console_workspace', 'console_viewer', 'bind_console') LOOP
    EXECUTE format('ALTER FUNCTION %s OWNER TO turntree_searcher', v_function);
    EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', v_function);
    EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %s', v_function, CASE
      WHEN v_function::text LIKE '%unindex_turn%' THEN 'turntree_eraser'
      WHEN v_function::text ~ 'permissions_of|notice_preferences|bind_console' THEN 'turntree_app'
      WHEN v_function::text LIKE '%console_%' THEN 'turntree_app, turntree_reader, turntree_importer, turntree_eraser'
      WHEN v_function::text LIKE '%reader_can_see_object%' THEN 'turntree_app, turntree_reader, turntree_importer'
      ELSE 'turntree_app, turntree_reader' END);
    IF v_function::text LIKE '%search_embeddings%' OR v_function::text LIKE '%nearest_nodes%' THEN
      -- pgvector may be installed in any schema.
      EXECUTE format('ALTER FUNCTION %s SET search_path = pg_catalog, turntree, %s, pg_temp', v_function, v_vectors);
    END IF;
  END LOOP;
  EXECUTE format('ALTER FUNCTION turntree.similarity_of(text, real[], uuid[]) SET search_path = pg_catalog, turntree, %s, pg_temp',
    v_vectors);
  REVOKE CREATE ON SCHEMA turntree FROM turntree_searcher;
END $$;
