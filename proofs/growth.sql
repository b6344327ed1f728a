-- name: analyze
ANALYZE;
