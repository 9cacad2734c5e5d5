"""The order of the tests is turned round."""

from __future__ import annotations

from pathlib import Path

from tests.probe.probed import Room

ORDERED = "".join(
    f"def test_{number}(tmp_path):\n    with open('order.txt', 'a') as file:\n        file.write('{number}')\n"
    for number in range(6)
)


def test_the_order_is_turned_round(room: Room, tree: Path) -> None:
    probed = room({"test_a.py": ORDERED}, exam={"reverse": True, "watch": False})
    assert probed.exit_code == 0
    assert (tree / "order.txt").read_text(encoding="utf-8") == "543210"
    assert [test[-1] for test in probed.log.collected] == list("543210")
    assert probed.main == {"process": "main"}


def test_the_order_is_turned_round_after_others_have_ordered(room: Room, tree: Path) -> None:
    conftest = """
        import pytest
        @pytest.hookimpl(trylast=True)
        def pytest_collection_modifyitems(items):
            items.sort(key=lambda item: int(item.name[-1]) % 3)
    """
    room({"test_a.py": ORDERED, "conftest.py": conftest}, exam={"reverse": True})
    assert (tree / "order.txt").read_text(encoding="utf-8") == "524130"


def test_the_order_is_turned_round_in_workers(room: Room, tree: Path) -> None:
    probed = room({"test_a.py": ORDERED}, "-n2", plugins=("xdist",), exam={"reverse": True})
    assert probed.exit_code == 0, probed.output
    assert [test[-1] for test in probed.log.collected] == list("543210")
    assert len(probed.log.tests) == 6
