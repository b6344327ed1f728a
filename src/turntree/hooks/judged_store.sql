-- Decisions about calls of other coding agents.

-- name: record_judged_call
-- Once, however often the file of a decision is read.
SELECT turntree.record_judged_call(%(workspace)b, %(session)b, %(at)b, %(data)b);
