"""The way through the project's own code, read from the stack traces of many languages.

What libraries, runtimes and test runners add to a trace is left out. All of it is a guess from wording: a line that
does not look like one of the known forms is no frame, and a text without any gives the first place that it mentions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from pytest_iterctl.control.evidence import Frame
from pytest_iterctl.feedback.failure_text import lines_of
from pytest_iterctl.text import one_line

__all__ = ["below", "frames_in", "own_lines"]

_MOST = 12
_NAME = 200
_SOURCE = 200
_CHAINED = ("The above exception was the direct cause", "During handling of the above exception", "Caused by: ")

#: What is nobody's project: installed packages, standard libraries, the inside of a runtime.
_NOT_OURS = re.compile(
    r"site-packages|dist-packages|node_modules|/lib(?:64)?/python\d|/_pytest/|<frozen|^<|^(?:node|bun|deno|ext|native):"
    r"|^internal/|/go/src/|/go/pkg/mod/|/rustc/|/\.cargo/|/\.rustup/|/gems/|/lib/ruby/|(?:^|/)vendor/|/\.m2/|/\.gradle/"
    r"|^/usr/(?:lib|lib64|include|share|local/(?:lib|go|share|include))/|/hostedtoolcache/|/gtest/|/Xcode[^/]*\.app/"
)
_FOREIGN = re.compile(
    r"\s*at (?:[\w.@-]+/+)*(?:java|javax|jdk|sun|com\.sun|kotlin|kotlinx|scala|groovy|junit|worker\.org\.gradle"
    r"|io\.kotest|org\.(?:junit|testng|gradle|apache\.maven|opentest4j|assertj|hamcrest|mockito|spockframework|codehaus"
    r"|springframework|scalatest))\."
)
_SUFFIXES = (
    r"py[ix]?|[cm]?[jt]sx?|vue|svelte|java|kts?|scala|groovy|go|rs|c|cc|cpp|cxx|h|hh|hpp|mm?|cs|fs|vb|php|rb|exs?|erl"
    r"|hs|lua|p[lm]|t|r|R|jl|swift|dart|cljs?|sh|bats|feature|robot|ya?ml|json|toml|sql|html|s?css|zig|nim|ml|elm"
)
# A path starts only where a word starts, which keeps the search linear on long runs of one character.
_PATH = (
    r"(?<![^\s(\[\"'`=,])(?:file://|webpack:///(?:\./)?)?"
    rf"(?P<path>(?:[A-Za-z]:[\\/])?[^\s:()\[\]\"'`<>|,=]*\.(?:{_SUFFIXES}))"
)
_NUMBERED = re.compile(r"[:( ]\d")
_PYTHON = re.compile(r'File "(?P<path>[^"\n]{1,400})", line (?P<line>\d{1,7})(?:, in (?P<function>\S.*))?')
_PYTEST = re.compile(rf"{_PATH}:(?P<line>\d{{1,7}}):(?: in (?!function )(?P<function>\S+)|\s*[A-Za-z_][\w.]*\s*$|\s*$)")
_PLACES = (
    re.compile(rf"{_PATH}:(?:line )?(?P<line>\d{{1,7}})(?!\d)"),
    re.compile(rf"{_PATH}\((?P<line>\d{{1,7}})(?:,\d+)?\)"),
    re.compile(rf"{_PATH} line (?P<line>\d{{1,7}})(?!\d)"),
    re.compile(r'"(?P<path>[^"\n]{1,400}\.[A-Za-z]\w{0,7})",? (?:on |at )?line (?P<line>\d{1,7})'),
    re.compile(rf"{_PATH}, line (?P<line>\d{{1,7}})(?!\d)"),
    re.compile(rf"{_PATH} (?P<line>\d{{1,7}}):\d{{1,5}}(?!\d)"),
)
_BROWSER = re.compile(
    rf"^(?P<function>[\w$.*/<]{{0,200}})@(?:file://|https?://[^/\s]{{1,200}}/)?(?P<path>[^\s:@]{{1,400}}\.(?:{_SUFFIXES}))"
    r":(?P<line>\d{1,7}):\d+$"
)
#: What stands before the place in a frame, maybe with the name of the function.
_BEFORE = re.compile(
    r"^\s*(?:"
    r"at (?:async |new )?(?:[\w.@-]+/+)*(?P<called>\S.{0,300}?) ?(?:\[as [^\]]*\] )?\("  # JavaScript, Java
    r"|at (?P<dotnet>\S.{0,400}?\)) in "
    r"|#\d+:? +(?:0x[0-9a-f]+ in )?(?P<native>\S.{0,200}?) (?:\(.*\) )?at "
    r"|(?P<numbered>#\d+ )"  # PHP names the function that is called there, not the one that the place is in
    r"|Error Trace:\s+"
    r"|(?:at |from |# )*"
    r")$"
)
#: What may stand after it: nothing but a column and addresses, or the name of the function.
_AFTER = re.compile(
    r"[\d:)]*(?: \+0x[0-9a-f]+)?(?: ~?\[.*\])?\s*$"
    r"|:in [`'](?P<ruby>[^'\n]{1,200})'"
    r"|: in function [<'](?P<lua>[^'>\n]{1,200})"
    r"| {2,}(?P<dart>[A-Za-z_][\w.<>]*)$"
)
#: A function on the line before its place: Rust, Go.
_ABOVE = re.compile(r"^(?:\s*\d+: +(?:0x[0-9a-f]+ - )?(?P<rust>\S.{0,200})|(?P<go>[\w./*()-]{1,200})\([^()]*\))$")
_FRAME_LINE = re.compile(
    r"^\s*(?:at (?:.{1,300} \()?(?:file://)?(?P<script>[^\s()]{1,400}?):\d+:\d+\)?(?: \{)?$"
    r'|File "(?P<python>[^"\n]{1,400})", line \d+'
    r"|(?P<pytest>\S[^:\n]{0,400}):\d+: in \S)"
)
_GROUP_BORDER = re.compile(r"^\s*[+|] ?")
_GROUP_MEMBER = re.compile(r"^\s*\+-\+-+ 1 -+$")
_DEFINED = re.compile(r"^\s*(?:async )?def (\w+)")
_MARKED = re.compile(r"^>\s{1,}(\S.*)$")
_CODE_FRAME = re.compile(r"^\s*> ?(\d+) ?\|\s?(.*)$")


@dataclass(slots=True)
class _Found:
    path: str
    line: int
    function: str = ""
    source: str = ""


def frames_in(text: str, root: str = "") -> tuple[Frame, ...]:
    """Outermost first, so that the last one is the deepest; paths below `root` are made relative to it."""
    if root and root in text:
        # Before anything else: wherever the project lies, what is below its root is its own.
        text = re.sub(rf"(?<![\w.-]){re.escape(root.rstrip('/'))}/", "", text)
    lines = lines_of(text)
    if "Exception Group Traceback" in text:
        lines = _of_the_group(lines)
    last = _last_of_a_chain(lines) if any(word in text for word in _CHAINED) else lines
    # Python shows the deepest frame last, everybody else shows it first.
    found = _python_frames(last) or _other_frames(last)[::-1]
    if not found and last is not lines:
        found = _python_frames(lines) or _other_frames(lines)[::-1]
    found = found or _mentioned(lines)
    distinct = list({(each.path, each.line): each for each in reversed(found)}.values())[::-1]
    if len(distinct) > _MOST:
        distinct = distinct[: _MOST // 3] + distinct[-(_MOST - _MOST // 3) :]
    return tuple(map(_frame, distinct))


def below(root: str, path: str) -> str:
    """The path relative to the root if it lies below it, else as it is."""
    return path.removeprefix(f"{root.rstrip('/')}/") if root else path


def own_lines(text: str, root: str = "") -> str:
    """A trace without the frames of libraries, runtimes and test runners, and without their statements."""
    kept: list[str] = []
    statements = False
    for line in text.split("\n"):
        frame = _FRAME_LINE.match(line)
        path = (frame["script"] or frame["python"] or frame["pytest"]) if frame else ""
        if _FOREIGN.match(line) or (path and not _is_ours(below(root, path))):
            statements = bool(frame and not frame["script"])
            if kept and line.endswith(" {"):
                kept[-1] += " {"
        elif not statements or not line.startswith("    "):
            statements = False
            kept.append(line)
    return "\n".join(kept)


def _frame(found: _Found) -> Frame:
    return Frame(
        path=one_line(found.path.removeprefix("./"), 500),
        line=found.line,
        function=one_line(found.function, _NAME),
        source=one_line(found.source, _SOURCE),
    )


def _last_of_a_chain(lines: tuple[str, ...]) -> tuple[str, ...]:
    for at in range(len(lines) - 1, -1, -1):
        if lines[at].lstrip().startswith(_CHAINED):
            return lines[at:]
    return lines


def _of_the_group(lines: tuple[str, ...]) -> tuple[str, ...]:
    """Where the group itself was raised, without the border, and not where its members were."""
    end = next((at for at, line in enumerate(lines) if _GROUP_MEMBER.match(line)), len(lines))
    return tuple(_GROUP_BORDER.sub("", line) for line in lines[:end])


def _python_frames(lines: tuple[str, ...]) -> list[_Found]:
    """Tracebacks as Python prints them and as pytest does, with the statement of each frame."""
    frames: list[_Found] = []
    function = marked = ""
    for at, line in enumerate(lines):
        if "def " in line and (match := _DEFINED.match(line)):
            function = match[1]
        elif line[:1] == ">" and (match := _MARKED.match(line)):
            marked = match[1]
        match = _PYTHON.search(line) if 'File "' in line else _PYTEST.match(line)
        if not match:
            continue
        if _is_ours(match["path"]):
            below = lines[at + 1] if at + 1 < len(lines) else ""
            source = below.strip() if below.startswith("    ") and not _PYTHON.search(below) else ""
            frames.append(_Found(match["path"], int(match["line"]), match["function"] or function, marked or source))
        function = marked = ""
    return frames


def _other_frames(lines: tuple[str, ...]) -> list[_Found]:
    frames: list[_Found] = []
    statements: dict[int, str] = {}
    for at, line in enumerate(lines):
        if match := _CODE_FRAME.match(line):
            statements[int(match[1])] = match[2]
        elif found := _other_frame(line, lines[at - 1] if at else ""):
            frames.append(found)
    for frame in frames:
        frame.source = statements.get(frame.line, "")
    return frames


def _other_frame(line: str, above: str) -> _Found | None:
    if "@" in line and (match := _BROWSER.match(line)) and _is_ours(match["path"]):
        return _Found(match["path"], int(match["line"]), match["function"])
    place = _place(line)
    before = _BEFORE.match(line[: place.start()]) if place is not None else None
    if place is None or before is None:
        return None
    after = _AFTER.match(line, place.end())
    if after is None and not (before["called"] or before["native"] or before["numbered"]):
        return None
    named = [before["called"], before["dotnet"], before["native"], *(after.groups() if after else ())]
    if not any(named) and (match := _ABOVE.match(above)):
        named = [*match.groups()]
    return _Found(place["path"], int(place["line"]), next((name for name in named if name), ""))


def _mentioned(lines: tuple[str, ...]) -> list[_Found]:
    for line in lines:
        if (place := _place(line)) is not None:
            return [_Found(place["path"], int(place["line"]))]
    return []


def _place(line: str) -> re.Match[str] | None:
    if not _NUMBERED.search(line) or _FOREIGN.match(line):
        return None
    for pattern in _PLACES:
        if (place := pattern.search(line)) and _is_ours(place["path"]):
            return place
    return None


@lru_cache(maxsize=512)  # a trace names the same few files again and again
def _is_ours(path: str) -> bool:
    return not _NOT_OURS.search(path.replace("\\", "/"))
