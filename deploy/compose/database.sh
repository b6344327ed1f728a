#!/bin/sh
# Runs once, when the database is created: the login of Turntree, which is no superuser, its
# database, and the extension for search by meaning, which only a superuser may create.
set -eu
psql --no-psqlrc --quiet --set=ON_ERROR_STOP=1 --username "${POSTGRES_USER:-postgres}" --dbname postgres \
  --set=password="$(cat /run/secrets/database-password)" <<'SQL'
CREATE ROLE turntree LOGIN CREATEROLE PASSWORD :'password';
CREATE DATABASE turntree OWNER turntree;
\connect turntree
CREATE EXTENSION vector;
SQL
