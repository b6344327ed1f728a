-- Reading a thread to hash it again.

-- name: verify_page
-- The stored bytes of a thread between two depths, root first.
WITH RECURSIVE chain (segment_id, low, high, parent_id) AS (
  SELECT s.id, s.fork_depth, least(t.depth, %(high)b::int), s.parent_id
    FROM turntree.turns t
    JOIN turntree.segments s ON s.workspace_id = t.workspace_id
      AND s.id = turntree.segment_at(t.workspace_id, t.segment_id, least(t.depth, %(high)b::int))
    WHERE t.workspace_id = %(workspace)b AND t.id = %(head)b
  UNION ALL
  SELECT s.id, s.fork_depth, c.low, s.parent_id
    FROM chain c, LATERAL (SELECT * FROM turntree.segments
      WHERE workspace_id = %(workspace)b AND id = c.parent_id OFFSET 0) s
    WHERE c.low >= %(low)b::int
)
SELECT t.id::text, t.digest, b.body
  FROM chain c
  JOIN LATERAL (SELECT id, digest, depth FROM turntree.turns WHERE workspace_id = %(workspace)b
    AND segment_id = c.segment_id AND depth > c.low AND depth >= %(low)b::int AND depth <= c.high OFFSET 0) t ON true
  LEFT JOIN LATERAL (SELECT header || E'\n' || body AS body FROM turntree.turn_bodies
    WHERE workspace_id = %(workspace)b AND turn_id = t.id OFFSET 0) b ON true
  ORDER BY t.depth;

-- name: turn_depth
SELECT depth FROM turntree.turns WHERE workspace_id = %(workspace)b AND id = %(turn)b;
