"""Raises the schema number when the SQL has changed: ``python -m tests.schema_number``."""

import re
import sys
from pathlib import Path

from turntree.db import schema


def main() -> None:
    """Write the number and the digest that belong to the files as they are."""
    digest = schema.digest_files()
    if digest == schema.DIGEST:
        sys.stdout.write(f"schema {schema.NUMBER}: no SQL has changed\n")
        return
    path = Path(schema.__file__)
    text = path.read_text(encoding="utf-8")
    number = schema.NUMBER + 1
    text = re.sub(r"^NUMBER: Final = .*$", f"NUMBER: Final = {number}", text, flags=re.MULTILINE)
    text = re.sub(r"^DIGEST: Final = .*$", f'DIGEST: Final = "{digest}"', text, flags=re.MULTILINE)
    path.write_text(text, encoding="utf-8")
    sys.stdout.write(f"schema {number}\n")


if __name__ == "__main__":
    main()
