-- The tree: positions and ancestry. A turn is (segment, depth). These functions walk segments, never turns.

-- Returns the segment that contains depth p_depth of the thread ending in segment p_segment.
CREATE OR REPLACE FUNCTION turntree.segment_at(p_ws uuid, p_segment uuid, p_depth int)
RETURNS uuid LANGUAGE plpgsql STABLE AS $$
DECLARE
  v_at uuid := p_segment;
  v_fork int;
  v_parent uuid;
  v_jump uuid;
  v_jump_fork int;
BEGIN
  LOOP
    SELECT fork_depth, parent_id, jump_id INTO v_fork, v_parent, v_jump
      FROM turntree.segments WHERE workspace_id = p_ws AND id = v_at;
    IF NOT FOUND OR v_fork < p_depth THEN
      RETURN v_at;
    END IF;
    -- Jump if the far segment is still at or below the wanted depth, else climb one.
    SELECT fork_depth INTO v_jump_fork
      FROM turntree.segments WHERE workspace_id = p_ws AND id = v_jump;
    v_at := CASE WHEN v_jump_fork >= p_depth THEN v_jump ELSE v_parent END;
  END LOOP;
END $$;

-- Whether p_ancestor is p_turn itself or one of its ancestors. Null if either is unknown.
CREATE OR REPLACE FUNCTION turntree.is_ancestor(p_ws uuid, p_ancestor uuid, p_turn uuid)
RETURNS boolean LANGUAGE plpgsql STABLE AS $$
DECLARE
  v_segment uuid;
  v_depth int;
  v_from uuid;
  v_from_depth int;
BEGIN
  SELECT segment_id, depth INTO v_segment, v_depth
    FROM turntree.turns WHERE workspace_id = p_ws AND id = p_ancestor;
  SELECT segment_id, depth INTO v_from, v_from_depth
    FROM turntree.turns WHERE workspace_id = p_ws AND id = p_turn;
  IF v_depth IS NULL OR v_from_depth IS NULL THEN
    RETURN NULL;
  END IF;
  RETURN v_depth <= v_from_depth
    AND (v_segment = v_from OR turntree.segment_at(p_ws, v_from, v_depth) = v_segment);
END $$;

-- Returns the nearest compaction at or above a position of a thread, or null.
CREATE OR REPLACE FUNCTION turntree.compaction_at(p_ws uuid, p_segment uuid, p_depth int)
RETURNS uuid LANGUAGE plpgsql STABLE AS $$
DECLARE
  v_at uuid := p_segment;
  v_depth int := p_depth;
  v_found uuid;
BEGIN
  LOOP
    SELECT id INTO v_found FROM turntree.turns
      WHERE workspace_id = p_ws AND segment_id = v_at AND kind = 'compaction' AND depth <= v_depth
      ORDER BY depth DESC LIMIT 1;
    IF FOUND OR v_at IS NULL THEN
      RETURN v_found;
    END IF;
    SELECT parent_id, fork_depth INTO v_at, v_depth FROM turntree.segments WHERE workspace_id = p_ws AND id = v_at;
  END LOOP;
END $$;

-- Returns the ancestor of a segment that has p_ordinal segments above it.
CREATE OR REPLACE FUNCTION turntree.segment_above(p_ws uuid, p_segment uuid, p_ordinal int)
RETURNS uuid LANGUAGE plpgsql STABLE AS $$
DECLARE
  v_at uuid := p_segment;
  v_ordinal int;
  v_parent uuid;
  v_jump uuid;
  v_jump_ordinal int;
BEGIN
  LOOP
    SELECT ordinal, parent_id, jump_id INTO v_ordinal, v_parent, v_jump
      FROM turntree.segments WHERE workspace_id = p_ws AND id = v_at;
    IF v_ordinal <= p_ordinal THEN
      RETURN v_at;
    END IF;
    SELECT ordinal INTO v_jump_ordinal
      FROM turntree.segments WHERE workspace_id = p_ws AND id = v_jump;
    v_at := CASE WHEN v_jump_ordinal >= p_ordinal THEN v_jump ELSE v_parent END;
  END LOOP;
END $$;

-- Returns the deepest turn that both threads contain, or null if they share none.
CREATE OR REPLACE FUNCTION turntree.common_ancestor(p_ws uuid, p_left uuid, p_right uuid)
RETURNS uuid LANGUAGE plpgsql STABLE AS $$
DECLARE
  l record;
  r record;
  v_next record;
  v_ordinal int;
BEGIN
  SELECT t.depth AS reach, s.id, s.parent_id, s.fork_depth, s.ordinal, s.jump_id INTO l
    FROM turntree.turns t JOIN turntree.segments s ON s.workspace_id = t.workspace_id AND s.id = t.segment_id
    WHERE t.workspace_id = p_ws AND t.id = p_left;
  SELECT t.depth AS reach, s.id, s.parent_id, s.fork_depth, s.ordinal, s.jump_id INTO r
    FROM turntree.turns t JOIN turntree.segments s ON s.workspace_id = t.workspace_id AND s.id = t.segment_id
    WHERE t.workspace_id = p_ws AND t.id = p_right;
  IF l.id IS NULL OR r.id IS NULL THEN
    RETURN NULL;
  END IF;
  -- First move the deeper side to just below the other's level, then up one. Keep the depth at which it left the
  -- segment above: that is how much of that segment its thread contains.
  IF l.ordinal < r.ordinal THEN
    v_next := l; l := r; r := v_next;
  END IF;
  IF l.ordinal > r.ordinal THEN
    SELECT s.fork_depth AS reach, p.id, p.parent_id, p.fork_depth, p.ordinal, p.jump_id INTO l
      FROM turntree.segments s JOIN turntree.segments p ON p.workspace_id = s.workspace_id AND p.id = s.parent_id
      WHERE s.workspace_id = p_ws AND s.id = turntree.segment_above(p_ws, l.id, r.ordinal + 1);
  END IF;
  -- Then climb together: by jumps while the far segments differ, one by one after that.
  WHILE l.id <> r.id LOOP
    IF l.parent_id IS NULL THEN
      RETURN NULL; -- Two separate trees.
    END IF;
    IF l.jump_id <> r.jump_id THEN
      SELECT 0 AS reach, s.id, s.parent_id, s.fork_depth, s.ordinal, s.jump_id INTO l
        FROM turntree.segments s WHERE s.workspace_id = p_ws AND s.id = l.jump_id;
      SELECT 0 AS reach, s.id, s.parent_id, s.fork_depth, s.ordinal, s.jump_id INTO r
        FROM turntree.segments s WHERE s.workspace_id = p_ws AND s.id = r.jump_id;
    ELSE
      SELECT l.fork_depth AS reach, s.id, s.parent_id, s.fork_depth, s.ordinal, s.jump_id INTO l
        FROM turntree.segments s WHERE s.workspace_id = p_ws AND s.id = l.parent_id;
      SELECT r.fork_depth AS reach, s.id, s.parent_id, s.fork_depth, s.ordinal, s.jump_id INTO r
        FROM turntree.segments s WHERE s.workspace_id = p_ws AND s.id = r.parent_id;
    END IF;
  END LOOP;
  RETURN (SELECT id FROM turntree.turns
    WHERE workspace_id = p_ws AND segment_id = l.id AND depth = least(l.reach, r.reach));
END $$;

-- Opens the segment that starts with turn p_turn below (p_parent, p_fork_depth). A null parent starts a new tree.
CREATE OR REPLACE FUNCTION turntree.open_segment(p_ws uuid, p_turn uuid, p_parent uuid, p_fork_depth int)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  p record;
  v_jump uuid;
BEGIN
  IF p_parent IS NULL THEN
    INSERT INTO turntree.segments (workspace_id, id, parent_id, fork_depth, ordinal, jump_id)
      VALUES (p_ws, p_turn, NULL, 0, 0, p_turn);
    RETURN;
  END IF;
  SELECT s.ordinal, j.ordinal AS jump_ordinal, jj.ordinal AS far_ordinal, jj.id AS far_id INTO p
    FROM turntree.segments s
    JOIN turntree.segments j ON j.workspace_id = p_ws AND j.id = s.jump_id
    JOIN turntree.segments jj ON jj.workspace_id = p_ws AND jj.id = j.jump_id
    WHERE s.workspace_id = p_ws AND s.id = p_parent;
  v_jump := CASE WHEN p.ordinal - p.jump_ordinal = p.jump_ordinal - p.far_ordinal
    THEN p.far_id ELSE p_parent END;
  INSERT INTO turntree.segments (workspace_id, id, parent_id, fork_depth, ordinal, jump_id)
    VALUES (p_ws, p_turn, p_parent, p_fork_depth, p.ordinal + 1, v_jump);
END $$;

-- Return the turns whose digest or id is between two bounds. They serve look-ups by prefix. Without a generic plan
-- the planner would plan each one again, and it takes any range for a large one.
CREATE OR REPLACE FUNCTION turntree.turns_by_digest(p_ws uuid, p_low bytea, p_high bytea, p_limit int)
RETURNS SETOF uuid LANGUAGE plpgsql STABLE ROWS 2 SET plan_cache_mode = force_generic_plan AS $$
BEGIN
  RETURN QUERY SELECT id FROM turntree.turns
    WHERE workspace_id = p_ws AND digest >= p_low AND digest <= p_high ORDER BY digest LIMIT p_limit;
END $$;

CREATE OR REPLACE FUNCTION turntree.turns_by_id(p_ws uuid, p_low uuid, p_high uuid, p_limit int)
RETURNS SETOF uuid LANGUAGE plpgsql STABLE ROWS 2 SET plan_cache_mode = force_generic_plan AS $$
BEGIN
  RETURN QUERY SELECT id FROM turntree.turns
    WHERE workspace_id = p_ws AND id >= p_low AND id <= p_high ORDER BY id LIMIT p_limit;
END $$;

-- Returns what is known about some turns besides what was sealed, in the order in which they were asked for; a server reads it
-- with every page. A column without anything to tell is null. Of the children of a turn those are left out that the caller knows,
-- and each of the others comes with the session that reached it last. With plans of their own, all calls would be planned
-- anew, which took three times as long as to carry them out.
CREATE OR REPLACE FUNCTION turntree.turn_profiles(p_ws uuid, p_turns uuid[], p_known uuid[], p_branches int)
RETURNS TABLE (turn text, calls json, labels text[], tags text[], spawned json, has_snapshot boolean, branches json)
LANGUAGE plpgsql STABLE ROWS 1 SET plan_cache_mode = force_generic_plan AS $$
BEGIN
  RETURN QUERY SELECT t.id::text,
      (SELECT json_agg(json_build_array(m.model, m.provider, m.call_id, m.input_tokens, m.output_tokens,
          m.cached_input_tokens, m.cache_write_tokens, m.reasoning_tokens) ORDER BY m.sequence)
        FROM turntree.model_calls m WHERE m.workspace_id = p_ws AND m.turn_id = t.id),
      (SELECT array_agg(n.name::text ORDER BY h.status, h.updated_at DESC, n.name) FROM turntree.sessions h
        JOIN turntree.session_names n ON n.workspace_id = h.workspace_id AND n.session_id = h.id AND n.reason IS NULL
        WHERE h.workspace_id = p_ws AND h.head_id = t.id AND h.status <> 'deleted'),
      (SELECT array_agg(g.tag ORDER BY g.tag) FROM turntree.tags g WHERE g.workspace_id = p_ws AND g.node_id = t.id),
      (SELECT json_agg(json_build_array(w.call_id, n.name) ORDER BY w.call_id, n.name) FROM turntree.spawns w
        JOIN turntree.sessions h ON h.workspace_id = w.workspace_id AND h.id = w.session_id
        JOIN turntree.session_names n ON n.workspace_id = w.workspace_id AND n.session_id = w.session_id AND n.reason IS NULL
        WHERE w.workspace_id = p_ws AND w.parent_turn_id = t.id),
      EXISTS (SELECT FROM turntree.turn_snapshots s WHERE s.workspace_id = p_ws AND s.turn_id = t.id),
      (SELECT json_agg(json_build_array(c.id, l.name) ORDER BY c.id) FROM (
          SELECT n.id, n.segment_id, n.depth FROM turntree.turns n
            WHERE n.workspace_id = p_ws AND n.segment_id = t.segment_id AND n.depth = t.depth + 1
          UNION ALL
          SELECT f.id, f.segment_id, f.depth FROM turntree.segments g
            JOIN turntree.turns f ON f.workspace_id = g.workspace_id AND f.id = g.id
            WHERE g.workspace_id = p_ws AND g.parent_id = t.segment_id AND g.fork_depth = t.depth
          ORDER BY 1 LIMIT p_branches + 1) c
        LEFT JOIN LATERAL (SELECT n.name FROM turntree.session_reach r
          JOIN turntree.sessions h ON h.workspace_id = r.workspace_id AND h.id = r.session_id AND h.status <> 'deleted'
          JOIN turntree.session_names n ON n.workspace_id = h.workspace_id AND n.session_id = h.id AND n.reason IS NULL
          WHERE r.workspace_id = p_ws AND r.segment_id = c.segment_id AND r.max_depth >= c.depth
          ORDER BY h.status, h.updated_at DESC, n.name LIMIT 1) l ON true
        WHERE c.id <> ALL (p_known))
    FROM unnest(p_turns) WITH ORDINALITY AS x (id, place),
      LATERAL (SELECT o.id, o.segment_id, o.depth FROM turntree.turns o
        WHERE o.workspace_id = p_ws AND o.id = x.id OFFSET 0) t
    ORDER BY x.place;
END $$;

-- Returns the turns with a model call that its provider gave this id. A turn may come twice, from two tools that
-- recorded it. Calls of turns that the viewer may not see are hidden by the policy of their table.
CREATE OR REPLACE FUNCTION turntree.turns_by_response(p_ws uuid, p_response text, p_limit int)
RETURNS SETOF uuid LANGUAGE plpgsql STABLE ROWS 1 SET plan_cache_mode = force_generic_plan AS $$
BEGIN
  RETURN QUERY SELECT DISTINCT m.turn_id FROM turntree.model_calls m
    WHERE m.workspace_id = p_ws AND m.call_id = p_response ORDER BY 1 LIMIT p_limit;
END $$;

-- Returns what is archived: in each segment, the turns from this depth on. The tag of a turn holds for all turns that
-- follow it, in forks too.
CREATE OR REPLACE FUNCTION turntree.archived_segments(p_ws uuid)
RETURNS TABLE (segment_id uuid, low int) LANGUAGE plpgsql STABLE ROWS 10 AS $$
#variable_conflict use_column
BEGIN
  IF NOT EXISTS (SELECT FROM turntree.tags g WHERE g.workspace_id = p_ws AND g.tag = 'archived') THEN
    RETURN;
  END IF;
  RETURN QUERY
  WITH RECURSIVE below (segment_id, low) AS (
    SELECT t.segment_id, t.depth FROM turntree.tags g
      JOIN turntree.turns t ON t.workspace_id = g.workspace_id AND t.id = g.node_id
      WHERE g.workspace_id = p_ws AND g.tag = 'archived'
    UNION
    SELECT s.id, s.fork_depth + 1 FROM below b, LATERAL (SELECT x.id, x.fork_depth FROM turntree.segments x
      WHERE x.workspace_id = p_ws AND x.parent_id = b.segment_id AND x.fork_depth >= b.low OFFSET 0) s
  )
  SELECT b.segment_id, min(b.low) FROM below b GROUP BY b.segment_id;
END $$;
