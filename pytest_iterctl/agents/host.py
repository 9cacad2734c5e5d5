"""The process in which Python hooks run: loads the project's conftest files as pytest would, then calls one hook.

Started as `python -P -m pytest_iterctl.agents.host <pytest arguments>` by `hook.py`; everything else comes through
files named in the environment. It is the only place of ours that imports a project's code.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pluggy
import pytest

from pytest_iterctl import hookspecs

__all__ = ["main"]

_REVIEWS = ("approve", "reject", "pending")


class _Host:
    """A pytest plugin that takes over once the conftest files are loaded."""

    def __init__(self, request: dict[str, object], result: Path) -> None:
        self._request = request
        self._result = result

    @pytest.hookimpl(tryfirst=True)
    def pytest_cmdline_main(self, config: pytest.Config) -> int:
        capture = config.pluginmanager.getplugin("capturemanager")
        if capture is not None:
            capture.suspend_global_capture(in_=True)
        result = _call(_manager(config), self._request)
        self._result.write_text(json.dumps(result), encoding="utf-8")
        return 0


def _manager(config: pytest.Config) -> pluggy.PluginManager:
    """Hooks of ours found in conftest files and pytest plugins, then in packages that name the `iterctl` group."""
    manager = pluggy.PluginManager("iterctl")
    manager.add_hookspecs(hookspecs)
    for name, plugin in config.pluginmanager.list_name_plugin():
        if any(each.startswith("iterctl_") for each in dir(plugin)):
            # By the name that pytest knows it by: as modules, conftest files of several folders have the same one.
            manager.register(plugin, name)
    manager.load_setuptools_entrypoints("iterctl")
    manager.check_pending()
    return manager


def _call(manager: pluggy.PluginManager, request: dict[str, object]) -> dict[str, object]:
    name = str(request["hook"])
    match name:
        case "?":
            names = (each for each in hookspecs.__all__ if each.startswith("iterctl_"))
            return {"hooks": [each for each in names if getattr(manager.hook, each).get_hookimpls()]}
        case "iterctl_strategies":
            return _strategies(manager)
        case "iterctl_decided":
            manager.hook.iterctl_decided(decision=request["decision"])
            return {}
        case "iterctl_classify":
            failure = hookspecs.FailureRequest(**request["failure"])  # type: ignore[arg-type]  # JSON that our own driver wrote
            return {"answer": manager.hook.iterctl_classify(failure=failure)}
        case "iterctl_choose_strategy":
            choice = hookspecs.StrategyRequest(**request["choice"])  # type: ignore[arg-type]  # JSON that our own driver wrote
            return {"answer": manager.hook.iterctl_choose_strategy(request=choice)}
        case _:
            return _stage(manager, name, request)


def _strategies(manager: pluggy.PluginManager) -> dict[str, object]:
    """What each implementation adds, as far as that is data. What is wrong with one takes nothing from the others."""
    name = "iterctl_strategies"
    implementations = manager.hook.iterctl_strategies.get_hookimpls()
    added: list[object] = []
    problems: list[str] = []
    for each in reversed(implementations):  # the order in which pluggy would call them
        others = [other.plugin for other in implementations if other is not each]
        try:
            for answer in manager.subset_hook_caller(name, others)():
                given = list(answer) if isinstance(answer, list | tuple) else [answer]
                json.dumps(given)
                added += given
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - the project's own code, which may as well skip or exit
            named = each.plugin_name
            place = os.path.relpath(named) if Path(named).is_absolute() else named
            problems.append(f"{name} of {place}: {type(error).__name__}: {error}")
    return {"strategies": added, "problems": problems}


def _stage(manager: pluggy.PluginManager, name: str, request: dict[str, object]) -> dict[str, object]:
    common = {key: request[key] for key in ("run", "task", "iteration", "max_iterations", "session", "prompt")}
    if name == "iterctl_generate":
        asked: object = hookspecs.GenerateRequest(agent=request["agent"], feedback=request["feedback"], **common)  # type: ignore[arg-type]  # JSON that our own driver wrote
        answer = manager.hook.iterctl_generate(request=asked)
    else:
        asked = hookspecs.ReviewRequest(reviewer=request["agent"], diff=request["diff"], **common)  # type: ignore[arg-type]  # JSON that our own driver wrote
        answer = manager.hook.iterctl_review(request=asked)
    return _document(name, str(request["agent"]), answer)


def _document(name: str, agent: str, answer: object) -> dict[str, object]:
    if answer is None:
        return {"error": f"no implementation of {name} took agent {agent!r}"}
    if name == "iterctl_generate":
        return {str(key): value for key, value in answer.items()} if isinstance(answer, dict) else {}
    review = answer if isinstance(answer, dict) else {"status": answer}
    if review.get("status") not in _REVIEWS:
        return {"error": f"{name} answered {review.get('status')!r}, which is none of {', '.join(_REVIEWS)}"}
    return {str(key): value for key, value in review.items()}


def main() -> int:
    request = json.loads(Path(os.environ.pop("ITERCTL_HOST_REQUEST")).read_text(encoding="utf-8"))
    result = Path(os.environ.pop("ITERCTL_HOST_RESULT"))
    if os.environ.pop("ITERCTL_HOST_MODE") == "module":
        sys.path.insert(0, str(Path.cwd()))
    return int(pytest.main(sys.argv[1:], plugins=[_Host(request, result)]))


if __name__ == "__main__":
    sys.exit(main())
