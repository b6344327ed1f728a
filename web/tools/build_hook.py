"""Lets no wheel and no source archive be made without the page that belongs to it.

An editable install may lack the page: `just web` builds it. Everything that is shipped carries the
build as it is, so that a user needs no Node.
"""

import importlib.util
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PageHook(BuildHookInterface[Any]):
    """Refuses a page that is missing or older than web/."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Raise before anything is written, if the page may not be shipped."""
        del build_data
        if version == "editable":
            return
        root = Path(self.root)
        tools = load_tools(root / "web" / "tools" / "build.py")
        fault = tools.find_fault(root / "web", root / "src" / "turntree" / "server" / "page")
        if fault is not None:
            raise SystemExit(f"{fault}; build it with `just web`")


def load_tools(path: Path) -> Any:
    """The module that builds the page; it is no package, so that it is loaded by its path."""
    spec = importlib.util.spec_from_file_location("turntree_web_build", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
