#!/bin/sh
# Starts a program with secrets from files: NAME_FILE=/run/secrets/name becomes NAME, as images of
# databases do it. A file keeps a secret out of what an engine shows of a container.
set -eu

for name in $(env | sed -n 's/^\([A-Z][A-Z0-9_]*\)_FILE=.*/\1/p'); do
  # This one is the name of a file for the programs themselves.
  [ "$name" = SSL_CERT ] && continue
  eval "file=\${${name}_FILE:-}"
  [ -n "$file" ] || continue
  if [ ! -r "$file" ]; then
    printf '%s_FILE: user %s cannot read %s\n' "$name" "$(id -u)" "$file" >&2
    exit 1
  fi
  secret=$(cat "$file")
  export "$name=$secret"
  unset "${name}_FILE" secret
done
exec "$@"
