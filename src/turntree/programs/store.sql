-- The registry. Viewers see public programs, their own, and those they were granted access to.

-- name: lock_programs
-- Always in the same order, so that two transactions that change the same programs cannot deadlock.
SELECT id::text FROM turntree.programs WHERE workspace_id = %(workspace)b AND id = ANY (%(programs)b::uuid[])
  ORDER BY id FOR NO KEY UPDATE;

-- name: create_program
SELECT turntree.create_program(%(workspace)b, %(program)b, %(kind)b, %(name)b, %(owner)b, %(state)b, %(visibility)b,
  %(details)b, %(digest)b, %(config)b, %(members)b::text[], %(targets)b::text[], %(event)b, %(data)b, %(by)b, %(at)b);

-- name: change_program
SELECT turntree.change_program(%(workspace)b, %(program)b, %(right)b, %(event)b, %(data)b, %(by)b, %(at)b,
  %(from)b, %(to)b, %(sets)b, %(visibility)b,
  %(number)b::int, %(digest)b, %(config)b, %(members)b::text[], %(targets)b::text[]);

-- name: set_program_grant
SELECT turntree.set_program_grant(%(workspace)b, %(program)b, %(grantee)b, %(right)b, %(on)b, %(data)b, %(by)b, %(at)b);

-- name: add_notice
SELECT turntree.add_notice(%(workspace)b, %(person)b, %(kind)b, %(by)b, %(text)b, %(refs)b::jsonb, %(key)b, %(at)b::timestamptz);

-- name: find_program
SELECT p.id::text, p.kind, p.name, p.owner, p.state, p.visibility, p.version, v.digest, v.by, o.bytes, turntree.hidden_members(p.workspace_id, p.id, p.version, %(by)b), turntree.visible_details(p.workspace_id, p.details, %(by)b),
    p.created_at, p.updated_at,
    ARRAY(SELECT tag FROM turntree.tags t WHERE t.workspace_id = p.workspace_id AND t.node_id = p.id ORDER BY tag)
  FROM turntree.programs p
  JOIN turntree.program_versions v ON v.workspace_id = p.workspace_id AND v.program_id = p.id AND v.version = p.version
  JOIN turntree.objects o ON o.workspace_id = v.workspace_id AND o.digest = v.digest
  WHERE p.workspace_id = %(workspace)b AND (p.name = %(name)b OR p.id = %(id)b::uuid)
    AND turntree.has_program_access(p.workspace_id, p.id, p.owner, p.visibility, %(by)b, 'read');

-- name: list_reachable_programs
-- Some programs and everything they refer to through certain members, transitively: a run needs all of them, and
-- reads them in one query.
WITH RECURSIVE reached (id, steps) AS (
    SELECT p.id, 0 FROM turntree.programs p WHERE p.workspace_id = %(workspace)b
      AND (p.name = ANY (%(names)b::text[]) OR p.id = ANY (%(ids)b::uuid[]))
    UNION
    SELECT r.target_id, reached.steps + 1 FROM reached
      JOIN turntree.programs p ON p.workspace_id = %(workspace)b AND p.id = reached.id
      JOIN turntree.program_refs r ON r.workspace_id = %(workspace)b AND r.program_id = p.id AND r.version = p.version
      WHERE r.path = ANY (%(members)b::text[]) AND reached.steps < 4)
SELECT p.id::text, p.kind, p.name, p.owner, p.state, p.visibility, p.version, v.digest, v.by, o.bytes, turntree.hidden_members(p.workspace_id, p.id, p.version, %(by)b), turntree.visible_details(p.workspace_id, p.details, %(by)b),
    p.created_at, p.updated_at,
    ARRAY(SELECT tag FROM turntree.tags t WHERE t.workspace_id = p.workspace_id AND t.node_id = p.id ORDER BY tag)
  FROM (SELECT DISTINCT id FROM reached) d
  JOIN turntree.programs p ON p.workspace_id = %(workspace)b AND p.id = d.id
  JOIN turntree.program_versions v ON v.workspace_id = p.workspace_id AND v.program_id = p.id AND v.version = p.version
  JOIN turntree.objects o ON o.workspace_id = v.workspace_id AND o.digest = v.digest
  WHERE turntree.has_program_access(p.workspace_id, p.id, p.owner, p.visibility, %(by)b, 'read');

-- name: list_programs
SELECT p.id::text, p.kind, p.name, p.owner, p.state, p.visibility, p.version, v.digest, v.by, o.bytes, turntree.hidden_members(p.workspace_id, p.id, p.version, %(by)b), turntree.visible_details(p.workspace_id, p.details, %(by)b),
    p.created_at, p.updated_at,
    ARRAY(SELECT tag FROM turntree.tags t WHERE t.workspace_id = p.workspace_id AND t.node_id = p.id ORDER BY tag)
  FROM turntree.programs p
  JOIN turntree.program_versions v ON v.workspace_id = p.workspace_id AND v.program_id = p.id AND v.version = p.version
  JOIN turntree.objects o ON o.workspace_id = v.workspace_id AND o.digest = v.digest
  WHERE p.workspace_id = %(workspace)b AND p.name > %(after)b
    AND (%(kind)b::text IS NULL OR p.kind = %(kind)b::text)
    AND (%(state)b::text IS NULL OR p.state = %(state)b::text)
    AND NOT EXISTS (SELECT FROM unnest(%(tags)b::text[]) w WHERE NOT EXISTS (SELECT FROM turntree.tags t
      WHERE t.workspace_id = p.workspace_id AND t.node_id = p.id AND t.tag = w))
    AND turntree.has_program_access(p.workspace_id, p.id, p.owner, p.visibility, %(by)b, 'read')
  ORDER BY p.name LIMIT %(limit)b;

-- name: list_private_programs
SELECT p.id::text FROM turntree.programs p
  WHERE p.workspace_id = %(workspace)b AND p.kind = %(kind)b AND p.visibility = 'private'
    AND turntree.has_program_access(p.workspace_id, p.id, p.owner, p.visibility, %(by)b, 'read');

-- name: find_program_version
SELECT v.version, v.digest, v.by, o.bytes, turntree.hidden_members(v.workspace_id, v.program_id, v.version, %(by)b)
  FROM turntree.program_versions v
  JOIN turntree.objects o ON o.workspace_id = v.workspace_id AND o.digest = v.digest
  WHERE v.workspace_id = %(workspace)b AND v.program_id = %(program)b AND v.version = %(number)b::int;

-- name: list_program_versions
SELECT version, digest, created_at, by FROM turntree.program_versions
  WHERE workspace_id = %(workspace)b AND program_id = %(program)b ORDER BY version DESC;

-- name: list_program_uses
-- The programs that refer to a program now: versions other than the newest do not count.
SELECT r.path, p.id::text, p.kind, p.name, p.owner, p.state, p.visibility, p.version, v.digest, v.by, o.bytes,
    turntree.hidden_members(p.workspace_id, p.id, p.version, %(by)b), turntree.visible_details(p.workspace_id, p.details, %(by)b), p.created_at, p.updated_at,
    ARRAY(SELECT tag FROM turntree.tags t WHERE t.workspace_id = p.workspace_id AND t.node_id = p.id ORDER BY tag)
  FROM turntree.program_refs r
  JOIN turntree.programs p ON p.workspace_id = r.workspace_id AND p.id = r.program_id AND p.version = r.version
  JOIN turntree.program_versions v ON v.workspace_id = p.workspace_id AND v.program_id = p.id AND v.version = p.version
  JOIN turntree.objects o ON o.workspace_id = v.workspace_id AND o.digest = v.digest
  WHERE r.workspace_id = %(workspace)b AND r.target_id = %(program)b
    AND turntree.has_program_access(p.workspace_id, p.id, p.owner, p.visibility, %(by)b, 'read')
  ORDER BY p.name, r.path;

-- name: list_program_used
SELECT r.path, p.id::text, p.kind, p.name, p.owner, p.state, p.visibility, p.version, v.digest, v.by, o.bytes,
    turntree.hidden_members(p.workspace_id, p.id, p.version, %(by)b), turntree.visible_details(p.workspace_id, p.details, %(by)b), p.created_at, p.updated_at,
    ARRAY(SELECT tag FROM turntree.tags t WHERE t.workspace_id = p.workspace_id AND t.node_id = p.id ORDER BY tag)
  FROM turntree.programs u
  JOIN turntree.program_refs r ON r.workspace_id = u.workspace_id AND r.program_id = u.id AND r.version = u.version
  JOIN turntree.programs p ON p.workspace_id = r.workspace_id AND p.id = r.target_id
  JOIN turntree.program_versions v ON v.workspace_id = p.workspace_id AND v.program_id = p.id AND v.version = p.version
  JOIN turntree.objects o ON o.workspace_id = v.workspace_id AND o.digest = v.digest
  WHERE u.workspace_id = %(workspace)b AND u.id = %(program)b
    AND turntree.has_program_access(p.workspace_id, p.id, p.owner, p.visibility, %(by)b, 'read')
  ORDER BY r.path;

-- name: find_last_active
-- Among the turns that the viewer may read.
SELECT max(t.sealed_at) FROM turntree.turns t WHERE t.workspace_id = %(workspace)b AND t.by = %(by)b;

-- name: list_program_grants
SELECT grantee, access FROM turntree.program_grants
  WHERE workspace_id = %(workspace)b AND program_id = %(program)b ORDER BY grantee, access;
