-- Plans and their events.

-- name: start_plan
SELECT turntree.start_plan(%(workspace)b, %(plan)b, %(kind)b, %(at)b, %(id)b, %(body)b);

-- name: append_plan_event
SELECT turntree.append_plan_event(%(workspace)b, %(plan)b, %(seq)b, %(id)b, %(kind)b, %(body)b, %(outcome)b);

-- name: record_session_event
SELECT turntree.record_session_event(%(workspace)b, %(session)b, %(kind)b, %(at)b, %(data)b);

-- name: read_plan
SELECT body FROM turntree.events WHERE workspace_id = %(workspace)b AND stream_id = %(plan)b ORDER BY seq;

-- name: list_open_plans
SELECT id::text FROM turntree.plans WHERE workspace_id = %(workspace)b AND outcome IS NULL ORDER BY id;

-- name: list_plans
SELECT id::text FROM turntree.plans WHERE workspace_id = %(workspace)b ORDER BY id DESC LIMIT %(limit)b;

-- name: list_merges
-- The events of the newest reverts and picks, in one statement: every undo reads them.
SELECT e.body FROM (SELECT id FROM turntree.plans
    WHERE workspace_id = %(workspace)b AND kind IN ('revert', 'pick') AND outcome = 'completed'
    ORDER BY id DESC LIMIT %(limit)b) p
  JOIN turntree.events e ON e.workspace_id = %(workspace)b AND e.stream_id = p.id
  ORDER BY p.id, e.seq;

-- name: link_plan
INSERT INTO turntree.session_plans (workspace_id, session_id, version, plan_id)
  VALUES (%(workspace)b, %(session)b, %(version)b, %(plan)b);

-- name: find_plan_of_move
SELECT plan_id::text FROM turntree.session_plans
  WHERE workspace_id = %(workspace)b AND session_id = %(session)b AND version = %(version)b;
