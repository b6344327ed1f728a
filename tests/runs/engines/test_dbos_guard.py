"""No row of DBOS runs code: a pickle is refused by every reader, and a worker makes sure of it."""

import base64
import os
import pickle
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from types import ModuleType

import psycopg
import pytest

from turntree.core.errors import InvalidOperation
from turntree.core.ids import WorkspaceId
from turntree.db.database import Database, sqlalchemy_url
from turntree.runs.engines.dbos import QUEUE, DbosEngine, open_dbos
from turntree.runs.engines.dbos_guard import (
    READERS,
    PickleRefused,
    check_guard,
    require_portable_json,
)
from turntree.testing.contracts.engine import ONE, TWO, open_desk, serving, until, until_idle, wake

serialization = pytest.importorskip("dbos._serialization")
pytestmark = pytest.mark.anyio


class Bait:
    """Leaves a folder behind when it is loaded."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Callable[..., None], tuple[str]]:
        return os.mkdir, (str(self.trace),)


def pickled(trace: Path) -> str:
    return base64.b64encode(pickle.dumps({"args": (Bait(trace),), "kwargs": {}})).decode()


@pytest.fixture
async def engine(database: Database) -> AsyncGenerator[DbosEngine, None]:
    url = sqlalchemy_url(database.conninfo)
    async with open_dbos(url, WorkspaceId(str(database.workspace))) as opened:
        yield opened


@pytest.mark.slow
async def test_a_pickled_row_runs_nothing_in_a_worker(
    engine: DbosEngine, conninfo: str, tmp_path: Path
) -> None:
    trace, desk = tmp_path / "trace", open_desk()
    await wake(engine, ONE)
    with psycopg.connect(conninfo) as owner:
        owner.execute(
            "INSERT INTO dbos.workflow_status (workflow_uuid, status, name, queue_name,"
            " queue_partition_key, application_version, serialization, application_name)"
            " SELECT queue_name || ':evil:1', status, name, queue_name, queue_partition_key,"
            " application_version, 'py_pickle', application_name FROM dbos.workflow_status"
        )
        owner.execute(
            "INSERT INTO dbos.workflow_input (workflow_uuid, inputs) VALUES (%s, %s)",
            (f"{QUEUE}:evil:1", pickled(trace)),
        )

    async def is_refused() -> bool:
        with psycopg.connect(conninfo) as owner:
            found = owner.execute(
                "SELECT status FROM dbos.workflow_status WHERE workflow_uuid LIKE '%:evil:1'"
            )
            return found.fetchone() == ("ERROR",)

    async with serving(engine, desk):
        await until(is_refused)
        # The rows behind it are handled all the same.
        await wake(engine, TWO)
        await until_idle(engine, (ONE, 1))
        await until_idle(engine, (TWO, 1))
    assert sorted(desk.seen) == [ONE, TWO]
    assert not trace.exists()


@pytest.mark.parametrize("reader", READERS)
def test_every_reader_of_dbos_refuses_a_pickle(reader: str, tmp_path: Path) -> None:
    require_portable_json()
    with pytest.raises(PickleRefused, match="only portable JSON"):
        vars(serialization)[reader](
            pickled(tmp_path / "trace"), "py_pickle", serialization.DBOSPortableJSON
        )
    with pytest.raises(PickleRefused):
        serialization.DefaultSerializer().deserialize(pickled(tmp_path / "trace"))
    with pytest.raises(PickleRefused):
        serialization.pickle.loads(b"")
    assert not (tmp_path / "trace").exists()


@pytest.mark.parametrize("reader", READERS)
def test_a_dbos_that_still_loads_pickles_is_refused(reader: str) -> None:
    require_portable_json()
    other = ModuleType("other")
    vars(other).update(vars(serialization))
    vars(other)[reader] = lambda value, *_: pickle.loads(base64.b64decode(value))  # noqa: S301
    with pytest.raises(InvalidOperation, match="pip install"):
        check_guard(other)
    del vars(other)[reader]
    with pytest.raises(InvalidOperation, match="pip install"):
        check_guard(other)
