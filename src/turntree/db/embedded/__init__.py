"""The PostgreSQL server that Turntree installs and runs itself."""
