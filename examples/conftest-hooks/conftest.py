"""An agent, a reviewer and a listener as Python hooks. Each call runs in a process of its own, never in the driver."""

from __future__ import annotations

import json
from pathlib import Path

from pytest_iterctl import hookimpl

SOURCE = Path("temperature.py")


@hookimpl
def iterctl_generate(request):
    """Change files in the work tree; the request says what fails. None would leave it to another implementation."""
    wrong = [test for item in request.feedback["items"] for test in item["tests"]]
    if wrong:
        offset = 30 if request.iteration == 1 else 32  # wrong at first, as agents are
        code = SOURCE.read_text().split("9 / 5")[0]
        SOURCE.write_text(f"{code}9 / 5 + {offset}\n")
    return {"cost_usd": 0.01, "tokens": len(request.prompt) // 4}


@hookimpl
def iterctl_review(request):
    """Judge the change: a status, or a mapping with `status` and `feedback`."""
    if "test_temperature.py" in request.diff:
        return {"status": "reject", "feedback": "the tests must stay as they are"}
    return "approve"


@hookimpl
def iterctl_decided(decision):
    """Be told of each decision."""
    line = {key: decision[key] for key in ("task_id", "iteration", "action", "reason")}
    with Path("decisions.log").open("a") as stream:
        stream.write(json.dumps(line) + "\n")
