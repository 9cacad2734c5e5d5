from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from pytest_iterctl.errors import PlanError
from pytest_iterctl.plan.load import read_plan
from pytest_iterctl.plan.model import SettingsPatch
from pytest_iterctl.plan.schema import plan_schema, settings_reference

GOOD = [
    "version: 1\n",
    "settings: {max_iterations: 3, safety: normal, feedback_max_length: 500}\n",
    "settings: {safety: {level: permissive, max_total_cost: 7.5, max_total_duration: 2h}}\n",
    "settings: {timeout: 90, test_timeout: 1h30m, backoff: linear, review: [person], pass_env: [TOKEN]}\n",
    "settings: {max_iterations: null, agent: person}\n",
    "agents:\n  a: {command: [x, --fix], timeout: 5m, env: {A: b}}\n  b: {command: x --fix}\n  c: {person: true}\n",
    "agents:\n  a: {hook: x, person: false}\n  b: {command: 'x {prompt_file}', prompt: file}\n",
    "agents:\n  a: {preset: claude, timeout: 20m, arguments: --model opus}\n  b: {preset: codex, command: [x]}\n",
    "agents:\n  a: {command: 'x {prompt}', prompt: argument, resume: ['{session_id}', '{prompt}'], leaves: ['.x*']}\n",
    "agents:\n  a: {preset: mini, session: fresh}\n",
    "agents:\n  a: {command: x, reads: {record: {type: [result, 3], ok: true}, tokens: [a.b, 'c.*'], cost_usd: usd}}\n",
    "agents:\n  a: {command: x, reads: {format: text, calls: {pattern: '^x', scope: count, source: stderr}}}\n",
    "agents:\n  a: {command: x, outcomes: [{outcome: asked, record: {a: '*'}, matches: {b: '^c'}, wait: d.e}]}\n",
    "agents:\n  a: {command: x, outcomes: [{outcome: done, exit_code: [1]}], budget: {max_cost: --u 3}, install: y}\n",
    "agents:\n  a: {command: x, version: {command: [x, -V], pattern: '^(?P<version>.)', tested: '1'}}\n",
    "tasks:\n  - {id: a, session: resume}\n",
    "tasks:\n  - {id: a, tests: tests/auth -k login}\n  - {id: b, needs: [a], tests: [x], max_iterations: 5}\n",
    "tasks:\n  - {id: web, test: {command: npm test, junit: reports/*.xml}, review: [hook]}\n",
]

BAD = [
    "[]",
    "version: 2",
    "version: true",
    "version: '1'",
    "unknown: 1",
    "settings: []",
    "settings: null",
    "settings: {max_iteration: 3}",
    "settings: {max_iterations: '3'}",
    "settings: {max_iterations: 0}",
    "settings: {max_iterations: true}",
    "settings: {max_iterations: 2.5}",
    "settings: {auto_retry_on_test_fail: 1}",
    "settings: {auto_retry_on_test_fail: no}",
    "settings: {timeout: soon}",
    "settings: {timeout: [1]}",
    "settings: {timeout: 0}",
    "settings: {timeout: true}",
    "settings: {backoff: quick}",
    "settings: {safety: none}",
    "settings: {safety: 3}",
    "settings: {safety: {level: none}}",
    "settings: {safety: {max_total_cost: '7'}}",
    "settings: {safety: {max_total_cost: -1}}",
    "settings: {safety: {unknown: 1}}",
    "settings: {agent: ''}",
    "settings: {agent: [x]}",
    "settings: {review: person}",
    "settings: {review: [1]}",
    "settings: {pass_env: [A=B]}",
    "agents: []",
    "agents: {a: x}",
    "agents: {a b: {hook: x}}",
    "agents: {a: {}}",
    "agents: {a: {hook: x, person: true}}",
    "agents: {a: {person: false}}",
    "agents: {a: {command: []}}",
    "agents: {a: {command: ''}}",
    "agents: {a: {command: 3}}",
    "agents: {a: {command: [x, 3]}}",
    "agents: {a: {command: {x: y}}}",
    "agents: {a: {command: x, prompt: mail}}",
    "agents: {a: {command: x, env: {A: 1}}}",
    "agents: {a: {command: x, env: {A=: b}}}",
    "agents: {a: {command: x, preset: y}}",
    "agents: {a: {preset: 3}}",
    "agents: {a: {preset: claude, hook: x}}",
    "agents: {a: {preset: claude, person: true}}",
    "agents: {a: {command: x, session: new}}",
    "agents: {a: {command: x, reads: json}}",
    "agents: {a: {command: x, reads: {format: xml}}}",
    "agents: {a: {command: x, reads: {unknown: y}}}",
    "agents: {a: {command: x, reads: {tokens: 3}}}",
    "agents: {a: {command: x, reads: {tokens: {path: [3]}}}}",
    "agents: {a: {command: x, reads: {tokens: {path: y, scope: day}}}}",
    "agents: {a: {command: x, reads: {record: {y: [[z]]}}}}",
    "agents: {a: {command: x, outcomes: [{outcome: fine, exit_code: [1]}]}}",
    "agents: {a: {command: x, outcomes: [{exit_code: [1]}]}}",
    "agents: {a: {command: x, outcomes: [{outcome: done, exit_code: 1}]}}",
    "agents: {a: {command: x, outcomes: [{outcome: done, matches: {y: 3}}]}}",
    "agents: {a: {command: x, budget: {max_tokens: [y]}}}",
    "agents: {a: {command: x, version: {command: [x]}}}",
    "tasks: [{id: a, session: 3}]",
    "tasks: {}",
    "tasks: [3]",
    "tasks: [{}]",
    "tasks: [{id: 3}]",
    "tasks: [{id: a b}]",
    "tasks: [{id: a, tests: [1]}]",
    "tasks: [{id: a, tests: 1}]",
    "tasks: [{id: a, tests: [x], test: {command: x, junit: y}}]",
    "tasks: [{id: a, test: {command: x}}]",
    "tasks: [{id: a, test: {command: x, junit: ''}}]",
    "tasks: [{id: a, test: x}]",
    "tasks: [{id: a, needs: b}]",
    "tasks: [{id: a, needs: [1]}]",
    "tasks: [{id: a, prompt: null}]",
    "tasks: [{id: a, safety: normal}]",
    "tasks: [{id: a, stages: []}]",
]

DRAFTS = [jsonschema.Draft202012Validator, jsonschema.Draft7Validator]
drafts = pytest.mark.parametrize("draft", DRAFTS)


@drafts
def test_the_schema_is_a_schema(draft: type[jsonschema.Draft202012Validator | jsonschema.Draft7Validator]) -> None:
    schema = plan_schema()
    draft.check_schema(schema)
    json.dumps(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["title"] == "iterctl plan"


@drafts
@pytest.mark.parametrize("text", GOOD)
def test_what_the_loader_takes_the_schema_takes(
    draft: type[jsonschema.Draft202012Validator | jsonschema.Draft7Validator], text: str
) -> None:
    read_plan(text.encode(), "f", root=Path())
    draft(plan_schema()).validate(yaml.safe_load(text))


@drafts
@pytest.mark.parametrize("text", BAD)
def test_what_the_loader_refuses_by_type_the_schema_refuses(
    draft: type[jsonschema.Draft202012Validator | jsonschema.Draft7Validator], text: str
) -> None:
    with pytest.raises(PlanError):
        read_plan(text.encode(), "f", root=Path())
    # Read with our own reader's idea of words: `no` is text.
    data = yaml.load(text, Loader=yaml.BaseLoader) if " no}" in text else yaml.safe_load(text)
    assert not draft(plan_schema()).is_valid(data)


def test_only_words_that_draft_7_has_are_used() -> None:
    def keywords(value: object) -> set[str]:
        if isinstance(value, dict):
            return {*value, *(word for child in value.values() for word in keywords(child))}
        return {word for child in value for word in keywords(child)} if isinstance(value, list) else set()

    newer = {"prefixItems", "unevaluatedProperties", "unevaluatedItems", "dependentRequired", "dependentSchemas"}
    assert not keywords(plan_schema()) & newer


def test_everything_an_author_may_write_is_described() -> None:
    schema = plan_schema()
    for table in (schema, *schema["$defs"].values()):
        assert table["additionalProperties"] is False
        assert table["description"]
        for name, key in table["properties"].items():
            assert key.get("description"), name


def test_the_reference_has_a_row_for_each_setting() -> None:
    lines = settings_reference().splitlines()
    assert [line.split("|")[1].strip(" `") for line in lines[2:]] == list(SettingsPatch.model_fields)
    assert all(line.count("|") - line.count("\\|") == 7 for line in lines)
    row = (
        "| `timeout` | duration | `5m` | `iterate_timeout` | `ITERCTL_TIMEOUT` "
        "| time for each agent call and each test run (default 5m) |"
    )
    assert row in lines


def test_the_examples_of_the_project_fit(request: pytest.FixtureRequest) -> None:
    validator = jsonschema.Draft202012Validator(plan_schema())
    for path in sorted((request.config.rootpath / "examples").rglob("iterctl.y*ml")):
        validator.validate(yaml.safe_load(path.read_text(encoding="utf-8")))
