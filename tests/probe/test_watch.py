"""The tests' items and the plugins are what they were, or it is told."""

from __future__ import annotations

from tests.probe.probed import TEST, Room, product


def test_a_failure_that_is_swallowed_for_good_is_known_by_its_item(room: Room) -> None:
    text = """
        import gc, pytest
        def cheat():
            for each in gc.get_objects():
                if isinstance(each, pytest.Function):
                    each.runtest = lambda: None
    """
    files = product(text)
    files["calc.py"] += "\n    # never reached\n"
    files["calc.py"] = files["calc.py"].replace("    return left", "    cheat()\n    return left")
    probed = room(files)
    assert set(probed.main["items"]) == {"test_calc.py::test_a", "test_calc.py::test_b"}
    assert ["objects", "calc.py", ""] in probed.events("objects")


def test_another_function_or_code_in_the_place_of_a_test_is_seen(room: Room) -> None:
    text = """
        import gc, pytest
        def add(left, right):
            for each in gc.get_objects():
                if isinstance(each, pytest.Function) and each.name == "test_b":
                    each.obj = lambda: None
                if isinstance(each, pytest.Function) and each.name == "test_c":
                    each.obj.__code__ = (lambda: None).__code__
            return left + right
    """
    tests = TEST + "\ndef test_c():\n    assert 0\n"
    probed = room({"calc.py": text, "test_calc.py": tests})
    assert probed.main["items"] == ["test_calc.py::test_b", "test_calc.py::test_c"]


def test_a_plugin_registered_through_frames_is_seen(room: Room) -> None:
    text = """
        import sys
        class Plugin:
            def pytest_pyfunc_call(self, pyfuncitem):
                return True
        def add(left, right):
            frame = sys._getframe()
            while frame is not None:
                item = frame.f_locals.get("pyfuncitem")
                if item is not None and not item.config.pluginmanager.has_plugin("helper"):
                    item.config.pluginmanager.register(Plugin(), "helper")
                frame = frame.f_back
            return left + right
    """
    # A plugin that comes later is asked before the probe, which is how a test that it answers for is known.
    text = text.replace(
        "            def pytest_pyf",
        "            @__import__('pytest').hookimpl(tryfirst=True)\n            def pytest_pyf",
    )
    probed = room({"calc.py": text, "test_calc.py": TEST + "\ndef test_c():\n    assert 0\n"})
    assert set(probed.main["plugins"]) - set(probed.main["plugins_before"]) == {"helper", "funcmanage"}
    assert probed.main["items"] == ["test_calc.py::test_b", "test_calc.py::test_c"]
    assert probed.events("frames") == [["frames", "calc.py", ""]]
