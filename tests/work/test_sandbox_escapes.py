"""A hostile program in a real sandbox: each way out is a test, for a driver that is root and for one that is not."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.work.escapes import WAYS
from tests.work.sandboxes import NOBODY, SYSTEM_PYTHON, answers, machine, require_sandbox


@pytest.fixture(scope="module", params=["the same user", "an ordinary user"])
def tried(request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    require_sandbox()
    owner = os.geteuid()
    if request.param == "an ordinary user":
        if owner != 0:
            pytest.skip("the same user is an ordinary one already")
        if not SYSTEM_PYTHON.exists():
            pytest.skip(f"needs a Python that everybody can start: {SYSTEM_PYTHON}")
        owner = NOBODY
    with machine(owner) as world:
        yield {**answers(world, owner), "world": world}


@pytest.mark.parametrize("name", sorted(WAYS))
def test_there_is_no_way_out(tried: dict[str, Any], name: str) -> None:
    assert tried["answers"][name], f"a sandboxed command got out: {name}"


def test_many_ways_were_tried_and_none_of_them_hangs(tried: dict[str, Any]) -> None:
    assert tried["answers"].keys() == WAYS.keys()
    assert len(WAYS) > 100
    print(f"{len(WAYS)} ways out, the slowest: {tried['slowest']}")
    assert tried["slowest"][1] < 30


def test_nothing_outside_has_changed(tried: dict[str, Any]) -> None:
    world = tried["world"]
    assert tried["changed"] == {}
    for folder in ("/tmp", "/var/tmp", "/dev/shm", "/run", "/etc", "/usr", "/var", "/"):
        assert not Path(folder, world["fresh"]).exists()


def test_it_could_write_in_its_work_tree(tried: dict[str, Any]) -> None:
    assert Path(tried["world"]["tree"], "written inside").exists()


def test_no_datagram_came_to_the_machine(tried: dict[str, Any]) -> None:
    with pytest.raises(BlockingIOError):
        tried["world"]["udp_socket"].recv(1)
