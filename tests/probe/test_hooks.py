"""A hook that has another function is seen."""

from __future__ import annotations

import pytest

from tests.probe.probed import ADD, TEST, Room

SWAPPED = """
    import gc
    from pluggy import HookImpl
    def add(left, right):
        for each in gc.get_objects():
            if type(each) is HookImpl and CONDITION:
                CHEAT
        return left + right
"""


@pytest.mark.parametrize(
    ("condition", "cheat", "name"),
    [
        (
            "each.plugin_name.endswith('conftest.py') and 'makereport' in each.function.__name__",
            "each.function = lambda item, call: None",
            "hook pytest_runtest_makereport of conftest.py",
        ),
        (
            "each.plugin_name.endswith('later/conftest.py') and 'teardown' in each.function.__name__",
            "each.function.__code__ = (lambda item: None).__code__",
            "hook pytest_runtest_teardown of later/conftest.py",
        ),
        (
            "each.plugin_name == 'skipping' and 'makereport' in each.function.__name__",
            "each.function = lambda item, call: (yield)",
            "hook pytest_runtest_makereport of skipping",
        ),
        (
            "each.plugin_name == 'skipping' and 'makereport' in each.function.__name__",
            "[o.remove(each) for o in gc.get_referrers(each) if type(o) is list and {*map(type, o)} == {HookImpl}]",
            "hook pytest_runtest_makereport of skipping",
        ),
    ],
    ids=["conftest", "code", "framework", "gone"],
)
def test_a_hook_with_another_function_is_seen(room: Room, condition: str, cheat: str, name: str) -> None:
    conftest = "def pytest_runtest_makereport(item, call):\n    return None\n"
    later = "def pytest_runtest_teardown(item):\n    return None\n"
    files = {
        "calc.py": SWAPPED.replace("CONDITION", condition).replace("CHEAT", cheat),
        "conftest.py": conftest,
        "later/conftest.py": later,
        "later/test_calc.py": TEST,
    }
    probed = room(files, PYTHONPATH=".")
    assert name in probed.main["patched"], (probed.main["patched"], probed.output)


def test_hooks_that_are_left_alone_are_not_told(room: Room) -> None:
    files = {
        "calc.py": ADD,
        "conftest.py": """
            import pytest
            class Plugin:
                @pytest.hookimpl(tryfirst=True)
                def pytest_runtest_setup(self, item):
                    pass
            def pytest_configure(config):
                config.pluginmanager.register(Plugin(), "early")
            def pytest_collection_finish(session):
                session.config.pluginmanager.register(Plugin(), "late")
        """,
        "later/conftest.py": "def pytest_runtest_setup(item):\n    pass\n",
        "later/test_calc.py": TEST,
    }
    probed = room(files, PYTHONPATH=".")
    assert probed.exit_code == 0, probed.output
    assert probed.main["patched"] == []
