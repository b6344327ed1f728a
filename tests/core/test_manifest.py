"""Manifests: what a context was made of, in order."""

import orjson
from hypothesis import given
from hypothesis import strategies as st

from turntree.core.canonical import canonical, digest
from turntree.core.ids import Digest
from turntree.core.manifest import EntryKind, Manifest, ManifestEntry
from turntree.core.principal import SYSTEM, Principal
from turntree.testing import strategies

kinds: st.SearchStrategy[EntryKind] = st.sampled_from(
    ("prompt", "persona", "rules", "tool", "toolset", "permissions", "params")
)
entries = st.builds(ManifestEntry, kinds, strategies.texts(), strategies.digests())
manifests = st.lists(entries, max_size=5).map(lambda drawn: Manifest(tuple(drawn)))
ZERO = Digest("sha256:" + "0" * 64)


@given(manifests)
def test_a_manifest_reads_back(manifest: Manifest) -> None:
    assert Manifest.from_json(orjson.loads(canonical(manifest.to_json()))) == manifest


@given(manifests)
def test_the_order_of_assembly_is_part_of_a_manifest(manifest: Manifest) -> None:
    turned = Manifest(manifest.entries[::-1])
    same = digest(turned.to_json()) == digest(manifest.to_json())
    assert same == (turned == manifest)


def test_the_bytes_of_a_manifest_never_change() -> None:
    manifest = Manifest((ManifestEntry("prompt", "base", ZERO), ManifestEntry("tool", "ls", ZERO)))
    assert canonical(manifest.to_json()).decode() == (
        f'{{"entries":[{{"kind":"prompt","name":"base","object":"{ZERO}"}},'
        f'{{"kind":"tool","name":"ls","object":"{ZERO}"}}],"turntree":"manifest/1"}}'
    )


@given(strategies.principals())
def test_principal_reads_back_with_its_chain(principal: Principal) -> None:
    assert Principal.from_json(principal.to_json()) == principal


def test_a_principal_is_shown_by_kind_and_id() -> None:
    assert str(Principal("agent", "atlas", Principal("human", "ana"))) == "agent:atlas"
    assert str(SYSTEM) == "system:turntree"
