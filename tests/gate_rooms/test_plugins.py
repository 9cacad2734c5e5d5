"""A plugin of the tests that begins to reach into them is told from one whose own work was mended."""

from __future__ import annotations

from pytest_iterctl.gate.plugins import plugin_words

PLUGIN = b"""
import pytest


@pytest.fixture
def price():
    return 1


def pytest_addoption(parser):
    parser.addoption("--price")
"""


def test_hooks_and_reaching_words_are_found() -> None:
    assert plugin_words(PLUGIN) == {"pytest_addoption"}
    assert plugin_words(PLUGIN.replace(b"return 1", b"return 2")) == plugin_words(PLUGIN)
    reaching = PLUGIN.replace(b"def price():", b"def price(request):").replace(b"return 1", b"return request.node")
    assert plugin_words(reaching) - plugin_words(PLUGIN) == {"request"}
    everywhere = PLUGIN.replace(b"@pytest.fixture\n", b"@pytest.fixture(autouse=True)\n")
    assert plugin_words(everywhere) - plugin_words(PLUGIN) == {"autouse"}
    hook = PLUGIN + b"\n\ndef pytest_runtest_makereport(item, call):\n    pass\n"
    assert "pytest_runtest_makereport" in plugin_words(hook) - plugin_words(PLUGIN)


def test_what_is_no_program_may_do_anything() -> None:
    assert plugin_words(b"def (") > plugin_words(PLUGIN) - {"pytest_addoption"}
