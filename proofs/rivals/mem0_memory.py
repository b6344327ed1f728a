"""mem0, asked the same questions; runs in an environment of its own.

Reads a document from standard input: the address of an embedder, the turns with their messages,
and the questions. Writes the turns of the five memories that mem0 finds for each. It stores the
messages as they are (``infer=False``), because extracting memories needs a model. Its language
model is configured, since it cannot do without, and never asked.
"""

import json
import os
import sys
import tempfile
from importlib import import_module
from typing import Any

USER = "ana"
HITS = 5


def main() -> None:
    """Store every message, then answer every question."""
    asked: dict[str, Any] = json.load(sys.stdin)
    with tempfile.TemporaryDirectory(prefix="mem0-") as folder:
        os.environ.update(MEM0_DIR=folder, MEM0_TELEMETRY="False")
        # It reads these variables when it is imported, and it is in no other environment.
        memory: Any = import_module("mem0").Memory.from_config(
            _config(asked["url"], asked["dims"], folder)
        )
        for turn in asked["turns"]:
            memory.add(turn["messages"], user_id=USER, metadata={"turn": turn["id"]}, infer=False)
        answers = [_find(memory, question) for question in asked["questions"]]
    json.dump(answers, sys.stdout)


def _find(memory: Any, question: str) -> list[str]:
    found = memory.search(question, top_k=HITS, filters={"user_id": USER}, threshold=0.0)
    return [one["metadata"]["turn"] for one in found["results"]]


def _config(url: str, dims: int, folder: str) -> dict[str, Any]:
    access = {"api_key": "none", "openai_base_url": url}
    stored = {"path": f"{folder}/vectors", "embedding_model_dims": dims, "on_disk": True}
    return {
        "embedder": {"provider": "openai", "config": {"model": "minilm", **access}},
        "llm": {"provider": "openai", "config": access},
        "vector_store": {"provider": "qdrant", "config": stored},
        "history_db_path": f"{folder}/history.db",
    }


if __name__ == "__main__":
    main()
