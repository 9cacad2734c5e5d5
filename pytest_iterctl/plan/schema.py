"""The plan's JSON Schema for editors, and the table of settings for the documentation; both come from the models."""

from __future__ import annotations

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from pytest_iterctl.plan.environment_settings import INI_TWINS, environment_variable
from pytest_iterctl.plan.frozen import Settings
from pytest_iterctl.plan.model import RUN_WIDE, Plan, SettingsPatch
from pytest_iterctl.plan.presets import preset_names
from pytest_iterctl.plan.values import format_duration

__all__ = ["plan_schema", "settings_reference"]

_NOT_NULL: JsonSchemaValue = {"not": {"type": "null"}}
_DURATION = "duration"
#: Defaults that the models can't hold, because they depend on something else.
_DEFAULTS = {
    "test_timeout": "as `timeout`",
    "safety": "`normal`",
    "sandbox": "`auto`",
    "python": "the one that runs iterctl",
    "prepare": "none",
    "patience": "the thresholds below",
}


class _Plain(GenerateJsonSchema):
    """Without the titles that repeat each key's name with spaces."""

    def field_title_should_be_set(self, schema: object) -> bool:  # noqa: ARG002 - the base class passes it
        return False


def plan_schema() -> JsonSchemaValue:
    """The plan as JSON Schema 2020-12, in words that draft 7 has too, because editors still read that one."""
    schema = Plan.model_json_schema(schema_generator=_Plain)
    tables = schema["$defs"]
    for name in RUN_WIDE:
        del tables["Task"]["properties"][name]  # inherited, but they hold for a whole run
    tables["Task"]["not"] = _given("tests", "test")
    kinds = [_given("command"), _given("hook"), _given("person", value={"const": True})]
    tables["Agent"]["oneOf"] = [*kinds, {**_given("preset"), "not": _given("command")}]
    tables["Agent"]["properties"]["preset"]["anyOf"][0] = {"type": "string", "enum": list(preset_names())}
    for table in (schema, *tables.values()):
        for names in table["properties"].values():
            if "patternProperties" in names:
                names["additionalProperties"] = False  # pydantic says only what those that fit the pattern hold
    for table in (schema, *tables.values()):
        for key in table["properties"].values():
            if key.get("default", "") is None:
                del key["default"]  # it stands for "not said", which is no value that an editor should offer
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "iterctl plan"}


def _given(*keys: str, value: JsonSchemaValue = _NOT_NULL) -> JsonSchemaValue:
    return {"required": list(keys), "properties": dict.fromkeys(keys, value)}


def settings_reference() -> str:
    """A Markdown table of all settings, one per row."""
    properties = SettingsPatch.model_json_schema(schema_generator=_Plain)["properties"]
    rows = [("key", "type", "default", "pytest ini", "environment", "meaning"), ("---",) * 6]
    for name, schema in properties.items():
        kind = _kind(schema["anyOf"])
        ini = f"`{INI_TWINS[name]}`" if name in INI_TWINS else "–"
        variable = f"`{environment_variable(name)}`"
        rows.append((f"`{name}`", kind, _default(name, kind), ini, variable, schema["description"]))
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |\n" for row in rows)


def _kind(alternatives: list[JsonSchemaValue]) -> str:
    first, second, *_ = alternatives
    if "$ref" in second:
        return f"{_kind([first, first])}, or a table"
    if second.get("type") == "number":
        return _DURATION
    if "enum" in first:
        return ", ".join(f"`{word}`" for word in first["enum"])
    if "minimum" in first:
        return f"integer, {first['minimum']} to {first['maximum']}"
    return {"boolean": "true or false", "array": "list", "string": "text"}[first["type"]]


def _default(name: str, kind: str) -> str:
    if name in _DEFAULTS:
        return _DEFAULTS[name]
    value = Settings.model_fields[name].default if name in Settings.model_fields else None
    if value is None or value == ():
        return "none"
    if kind == _DURATION:
        return f"`{format_duration(value)}`"
    return f"`{str(value).lower()}`"
