-- Approvals. The policies show those of sessions that the viewer may read, and those that they are asked for.

-- name: list_approvals
-- Oldest first while they wait, newest first otherwise.
SELECT a.id::text, a.kind::text, a.state::text, a.tool, a.origin, a.args, a.args_digest, a.reason, a.requested_by,
    a.answerers || a.escalated_to, a.created_at, a.expires_at, a.run_id::text, a.session_id::text, n.name, a.call_id, a.folder,
    a.policy, a.line, a.question::text, a.decided_by, a.decided_at, a.note, a.answer::text, a.allowed_digest, a.used_at
  FROM turntree.approvals a
  LEFT JOIN turntree.session_names n ON n.workspace_id = a.workspace_id AND n.session_id = a.session_id AND n.reason IS NULL
  WHERE a.workspace_id = %(workspace)b AND a.state = 'pending'
    AND (%(session)b::uuid IS NULL OR a.session_id = %(session)b::uuid)
    AND (%(answerer)b::text IS NULL OR %(answerer)b = ANY (a.answerers || a.escalated_to))
    AND (%(after)b::uuid IS NULL OR (a.created_at, a.id) > (SELECT c.created_at, c.id FROM turntree.approvals c
      WHERE c.workspace_id = %(workspace)b AND c.id = %(after)b::uuid))
  ORDER BY a.created_at, a.id LIMIT %(limit)b;

-- name: list_all_approvals
-- Newest first, with those that were decided.
SELECT a.id::text, a.kind::text, a.state::text, a.tool, a.origin, a.args, a.args_digest, a.reason, a.requested_by,
    a.answerers || a.escalated_to, a.created_at, a.expires_at, a.run_id::text, a.session_id::text, n.name, a.call_id, a.folder,
    a.policy, a.line, a.question::text, a.decided_by, a.decided_at, a.note, a.answer::text, a.allowed_digest, a.used_at
  FROM turntree.approvals a
  LEFT JOIN turntree.session_names n ON n.workspace_id = a.workspace_id AND n.session_id = a.session_id AND n.reason IS NULL
  WHERE a.workspace_id = %(workspace)b
    AND (%(session)b::uuid IS NULL OR a.session_id = %(session)b::uuid)
    AND (%(answerer)b::text IS NULL OR %(answerer)b = ANY (a.answerers || a.escalated_to))
    AND (%(after)b::uuid IS NULL OR (a.created_at, a.id) < (SELECT c.created_at, c.id FROM turntree.approvals c
      WHERE c.workspace_id = %(workspace)b AND c.id = %(after)b::uuid))
  ORDER BY a.created_at DESC, a.id DESC LIMIT %(limit)b;

-- name: find_approvals
SELECT a.id::text, a.kind::text, a.state::text, a.tool, a.origin, a.args, a.args_digest, a.reason, a.requested_by,
    a.answerers || a.escalated_to, a.created_at, a.expires_at, a.run_id::text, a.session_id::text, n.name, a.call_id, a.folder,
    a.policy, a.line, a.question::text, a.decided_by, a.decided_at, a.note, a.answer::text, a.allowed_digest, a.used_at
  FROM turntree.approvals a
  LEFT JOIN turntree.session_names n ON n.workspace_id = a.workspace_id AND n.session_id = a.session_id AND n.reason IS NULL
  WHERE a.workspace_id = %(workspace)b AND (a.id = %(id)b::uuid OR a.run_id = %(run)b::uuid) ORDER BY a.created_at, a.id;

-- name: count_waiting
SELECT count(*) FROM turntree.approvals a
  WHERE a.workspace_id = %(workspace)b AND a.state = 'pending' AND %(answerer)b = ANY (a.answerers || a.escalated_to);

-- name: decide_approval
SELECT session::text, wake FROM turntree.decide_approval(
  %(workspace)b, %(id)b, %(by)b, %(decision)b, %(answer)b::text::jsonb, %(digest)b::bytea, %(note)b, %(at)b);

-- name: reject_waiting
SELECT rejected, session::text, wake FROM turntree.reject_waiting(%(workspace)b, %(session)b, %(by)b, %(note)b, %(at)b);

-- name: attend_approval
SELECT done, session::text, wake FROM turntree.attend_approval(%(workspace)b, %(id)b, %(at)b);

-- name: list_due
SELECT a.id::text FROM turntree.approvals a
  WHERE a.workspace_id = %(workspace)b AND a.state = 'pending' AND a.due_at <= %(at)b::timestamptz ORDER BY a.due_at, a.id LIMIT %(limit)b;

-- name: workspaces_with_due_approvals
SELECT turntree.workspaces_with_due_approvals(%(at)b)::text;

-- name: request_foreign
SELECT turntree.request_foreign_approval(%(workspace)b, %(row)b::text::jsonb, %(args)b, %(at)b)::text;

-- name: use_foreign
SELECT turntree.use_foreign_approval(%(workspace)b, %(id)b, %(digest)b, %(at)b);

-- name: default_answerers
SELECT turntree.default_answerers(%(workspace)b, %(session)b::uuid, %(person)b);
