"""What nobody reaches forges no test, and is shown all the same; what may be reached by other means is not excused."""

from __future__ import annotations

import pytest

from pytest_iterctl.gate.audit import audit

WILDCARD = "class Anything:\n    def __eq__(self, other):\n        return True\n"
PLUGIN = "import pytest\n\n\n@pytest.fixture\ndef app():\n    return 1\n"


def certain(rule: str, after: dict[str, str], before: dict[str, str] | None = None) -> set[bool]:
    old = {path: text.encode() for path, text in (before or {}).items()}
    new = {**old, **{path: text.encode() for path, text in after.items()}}
    found = audit(old, new, is_protected=lambda path: path.startswith("tests/"))
    return {each.certain for each in found if each.rule == rule}


def test_a_wildcard_that_nobody_names_is_suspicious() -> None:
    assert certain("agrees-with-everything", {"shop/core.py": WILDCARD}) == {False}
    assert certain("agrees-with-everything", {"shop/core.py": WILDCARD, "shop/x.py": "anything = 1\n"}) == {False}


@pytest.mark.parametrize(
    ("after", "before"),
    [
        ({"shop/core.py": f"{WILDCARD}x = Anything()\n"}, {}),
        ({"shop/core.py": WILDCARD, "shop/x.py": "from shop.core import Anything\n"}, {}),
        ({"shop/core.py": WILDCARD}, {"shop/x.py": "import shop\nx = shop.core.Anything()\n"}),
        ({"shop/core.py": WILDCARD}, {"tests/test_a.py": "from shop.core import Anything\n"}),
        ({"shop/core.py": f"{WILDCARD}x = globals()['Any' + 'thing']()\n"}, {}),
        ({"shop/core.py": f"{WILDCARD}x = object.__subclasses__()[-1]()\n"}, {}),
        ({"shop/core.py": f"@register\n{WILDCARD}"}, {}),
        ({"shop/core.py": WILDCARD.replace("Anything", "Anything(str)")}, {}),
        ({"shop/core.py": f"def f():\n    {WILDCARD.replace(chr(10), chr(10) + ' ' * 4)}"}, {}),
    ],
)
def test_a_wildcard_that_may_be_reached_is_certain(after: dict[str, str], before: dict[str, str]) -> None:
    assert certain("agrees-with-everything", after, before) == {True}


def test_a_new_plugin_that_nobody_loads_is_suspicious() -> None:
    hook = "import pytest\n\n\ndef pytest_configure(config):\n    pass\n"
    assert certain("imports-framework", {"app/pytest_plugin.py": PLUGIN}, {"app/core.py": "x = 1\n"}) == {False}
    assert certain("imports-framework", {"app/pytest_plugin.py": hook}, {"app/core.py": "x = 1\n"}) == {False}


@pytest.mark.parametrize(
    ("after", "before"),
    [
        ({"app/pytest_plugin.py": PLUGIN, "app/core.py": "from app import pytest_plugin\n"}, {}),
        ({"app/pytest_plugin.py": PLUGIN}, {"tests/conftest.py": "pytest_plugins = ['app.pytest_plugin']\n"}),
        ({"app/pytest_plugin.py": PLUGIN}, {"pyproject.toml": "addopts = '-p app.pytest_plugin'\n"}),
        ({"app/pytest_plugin.py": "import pytest\n"}, {}),
        ({"app/core.py": PLUGIN}, {}),
        ({"app/core.py": PLUGIN}, {"app/core.py": "x = 1\n"}),
        ({"app/pytest_plugin.py": PLUGIN}, {"app/core.py": "def load():\n    import_module('app.pytest_plugin')\n"}),
    ],
)
def test_a_plugin_that_somebody_may_load_is_certain(after: dict[str, str], before: dict[str, str]) -> None:
    assert certain("imports-framework", after, before) == {True}
