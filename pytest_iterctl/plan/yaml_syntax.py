"""What the YAML parsers complain about, in words that help whoever wrote the file.

PyYAML's Python parser and libyaml find the same mistakes at the same places but word them differently; here both
say the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import yaml

from pytest_iterctl.errors import PlanError
from pytest_iterctl.plan.document import SourceText
from pytest_iterctl.plan.problems import printable, quoted

__all__ = ["syntax_error"]


@dataclass(frozen=True, slots=True)
class _Meaning:
    """A part of the parser's words, what it means, what to do, and whether the place is where the trouble began."""

    words: str
    message: str
    hint: str = ""
    at_beginning: bool = False


_ALIGN = "keys of one table, and items of one list, start in the same column"
_MEANINGS = (
    _Meaning("mapping values are not allowed", "a `:` is not expected here", f"quote text with `: ` in it; {_ALIGN}"),
    _Meaning("could not find expected ':'", "this line has no `:` after its key", "", at_beginning=True),
    _Meaning("expected <block end>", "this line does not fit the lines above it", _ALIGN),
    _Meaning("did not find expected key", "this line does not fit the lines above it", _ALIGN),
    _Meaning("did not find expected '-' indicator", "this line does not fit the lines above it", _ALIGN),
    _Meaning("found unexpected end of stream", "this quotation mark is never closed", "", at_beginning=True),
    _Meaning("unexpected document", "this quotation mark is never closed", "", at_beginning=True),
    _Meaning("escape", "not an escape sequence", "write `\\\\` for a backslash, or use single quotation marks"),
    _Meaning("hexdecimal", "not an escape sequence", "write `\\\\` for a backslash, or use single quotation marks"),
    _Meaning("node content", "a value is expected here"),
    _Meaning("incompatible YAML document", "this version of YAML is not supported", "remove the `%YAML` line"),
)


def syntax_error(text: SourceText, error: yaml.YAMLError) -> PlanError:
    if not isinstance(error, yaml.MarkedYAMLError):
        return text.error(0, f"is not YAML: {printable(str(error))}")
    place = error.problem_mark.index if error.problem_mark else 0
    beginning = error.context_mark.index if error.context_mark else place
    problem = error.problem or "is not YAML"
    if "cannot start any token" in problem or "tab character" in problem:
        return _odd_character(text, place)
    for words, bracket in (("',' or ']'", "["), ("',' or '}'", "{")):
        if words in problem:
            if not text.text[place:].strip():
                return text.error(beginning, f"this `{bracket}` is never closed")
            hint = "quote text with brackets, braces or commas in it"
            return text.error(place, f"expected {words.replace(chr(39), '`')} here", hint=hint)
    for meaning in _MEANINGS:
        if meaning.words in problem:
            return text.error(beginning if meaning.at_beginning else place, meaning.message, hint=meaning.hint)
    return text.error(place, printable(problem))


def _odd_character(text: SourceText, place: int) -> PlanError:
    character = text.text[place : place + 1]
    if character == "\t":
        return text.error(place, "a tab can't be used here", hint="indent with spaces")
    return text.error(place, f"text can't begin with {quoted(character)}", hint="put it in quotation marks")
