"""PostgreSQL: connections, roles, migrations, SQL functions and the embedded server."""
