"""Documents as YAML and JSON: any text in them comes back as it was, and a diff reads like a diff."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

import yaml

__all__ = ["render_json", "render_yaml"]

#: What a literal block keeps exactly as it is. NEL and the Unicode line separators would come back as plain newlines.
_BLOCK = re.compile(r"[\t\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010fffe]*")


class _Dumper(yaml.SafeDumper):
    """Text of several lines as a literal block, so that a diff reads like a diff; nothing as an alias."""

    def ignore_aliases(self, data: object) -> bool:
        del data
        return True

    def analyze_scalar(self, scalar: str) -> yaml.emitter.ScalarAnalysis:
        analysis = super().analyze_scalar(scalar)
        # PyYAML quotes what has a tab or a blank before a newline, as nearly every diff does; a block holds both.
        analysis.allow_block = "\n" in scalar and bool(scalar.strip()) and _BLOCK.fullmatch(scalar) is not None
        return analysis


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    breaks = "|" if "\n" in text else '"' if re.search("[\x85\u2028\u2029]", text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=breaks)


_Dumper.add_representer(str, _represent_text)


def render_yaml(document: Mapping[str, object]) -> str:
    return yaml.dump(dict(document), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)


def render_json(document: Mapping[str, object]) -> str:
    return json.dumps(document, indent=1) + "\n"
