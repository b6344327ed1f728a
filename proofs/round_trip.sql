-- What proves a ledger, in all workspaces.

-- name: digests
SELECT 'turn ' || workspace_id || encode(digest, 'hex') || md5(b.header || b.body) FROM turntree.turns t
  JOIN turntree.turn_bodies b USING (workspace_id) WHERE b.turn_id = t.id
UNION ALL SELECT 'event ' || workspace_id || encode(id, 'hex') || md5(body) FROM turntree.events
UNION ALL SELECT 'object ' || workspace_id || encode(digest, 'hex') FROM turntree.objects
UNION ALL SELECT 'session ' || s::text FROM turntree.sessions s
UNION ALL SELECT 'move ' || h::text FROM turntree.session_history h;
