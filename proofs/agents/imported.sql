-- What an import left, in the figures that an agent's deeds are told in.

-- name: tool_calls
SELECT call_id, tool FROM turntree.tool_calls ORDER BY turn_id, sequence;

-- name: model_calls
SELECT DISTINCT ON (coalesce(call_id, turn_id || '/' || sequence)) call_id, input_tokens, output_tokens,
    cached_input_tokens, cache_write_tokens, reasoning_tokens
  FROM turntree.model_calls ORDER BY coalesce(call_id, turn_id || '/' || sequence);

-- name: counts
SELECT (SELECT count(*) FROM turntree.turns), (SELECT count(*) FROM turntree.compactions),
    (SELECT count(*) FROM turntree.spawns),
    (SELECT coalesce(sum(n - 1), 0)::int FROM (
      SELECT count(*) AS n FROM turntree.turns WHERE parent_id IS NOT NULL GROUP BY parent_id) x);
