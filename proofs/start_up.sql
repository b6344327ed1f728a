-- What the bare script reads: the rows that a command shows, without who may see them.

-- name: log
SELECT t.id, t.digest, t.depth, b.header, b.body FROM turntree.turns t
  JOIN turntree.turn_bodies b ON b.workspace_id = t.workspace_id AND b.turn_id = t.id
  ORDER BY t.id DESC LIMIT 200;

-- name: show
SELECT t.id, t.digest, t.depth, b.header, b.body FROM turntree.turns t
  JOIN turntree.turn_bodies b ON b.workspace_id = t.workspace_id AND b.turn_id = t.id
  ORDER BY t.id DESC LIMIT 1;

-- name: status
SELECT (SELECT count(*) FROM turntree.turns), (SELECT count(*) FROM turntree.sessions);

-- name: session_list
SELECT * FROM turntree.sessions ORDER BY id;

-- name: search
SELECT t.id, t.digest, t.depth, b.header, b.body FROM turntree.turns t
  JOIN turntree.turn_bodies b ON b.workspace_id = t.workspace_id AND b.turn_id = t.id
  WHERE b.body LIKE '%redirect%' LIMIT 20;

-- name: revert
SELECT t.id, t.digest, p.started_at, p.ended_at, b.header, b.body FROM turntree.turn_snapshots p
  JOIN turntree.turns t ON t.workspace_id = p.workspace_id AND t.id = p.turn_id
  JOIN turntree.turn_bodies b ON b.workspace_id = t.workspace_id AND b.turn_id = t.id
  ORDER BY p.ended_at DESC LIMIT 10;

-- name: log_statements
ALTER DATABASE turntree SET log_statement = 'all';
