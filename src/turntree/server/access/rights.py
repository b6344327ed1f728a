"""The rights that routes require: one action each, which roles, keys and tokens permit or do not.

They have the names that the database uses for the same actions, session by session
(``db/functions/36_visibility.sql``): the table decides what a caller may do at all, and the
database to which sessions.
"""

from typing import Final

from turntree.auth.permissions import right

READ: Final = right("action", "read")
INVOKE: Final = right("action", "invoke")
"""To send messages, move a session and tag turns."""
CREATE: Final = right("action", "create")
"""To begin sessions and forks."""
CONFIGURE: Final = right("action", "configure")
"""To rename and archive sessions."""
