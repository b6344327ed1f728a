-- Programs as stored, for comparison with their events.

-- name: fsck_programs
SELECT id::text, kind, name, owner, state, visibility, version, details::text, event_seq FROM turntree.programs
  WHERE workspace_id = %(workspace)b AND id > %(after)b ORDER BY id LIMIT %(limit)b;

-- name: fsck_program_events
-- A session's moves share its stream, are many and do not change the program.
SELECT stream_id::text, seq, body FROM turntree.events
  WHERE workspace_id = %(workspace)b AND stream_id = ANY (%(programs)b::uuid[]) AND kind <> 'session.head_moved'
  ORDER BY stream_id, seq;

-- name: fsck_program_versions
SELECT v.program_id::text, v.version, v.digest, o.bytes FROM turntree.program_versions v
  LEFT JOIN turntree.objects o ON o.workspace_id = v.workspace_id AND o.digest = v.digest
  WHERE v.workspace_id = %(workspace)b AND v.program_id = ANY (%(programs)b::uuid[]) ORDER BY 1, 2;

-- name: fsck_program_refs
SELECT r.program_id::text, r.version, r.path, t.name FROM turntree.program_refs r
  LEFT JOIN turntree.programs t ON t.workspace_id = r.workspace_id AND t.id = r.target_id
  WHERE r.workspace_id = %(workspace)b AND r.program_id = ANY (%(programs)b::uuid[]) ORDER BY 1, 2, 3;

-- name: fsck_program_grants
SELECT program_id::text, grantee, access FROM turntree.program_grants
  WHERE workspace_id = %(workspace)b AND program_id = ANY (%(programs)b::uuid[]) ORDER BY 1, 2, 3;
