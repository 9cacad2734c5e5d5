"""Stand-ins for agent CLIs: executables with the tools' names that take their options and play what they once printed.

A stand-in refuses an option that the real tool does not have, and takes its prompt only from where the real tool does.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["RECORDINGS", "Recording", "StandIn", "recorded"]

RECORDINGS = Path(__file__).with_name("recordings")

#: What each tool takes: words before the options, options without and with a value, and where its prompt is.
TOOLS: dict[str, dict[str, Any]] = {
    "claude": {
        "flags": ["-p", "--print", "--verbose", "--dangerously-skip-permissions", "--fork-session"],
        "values": [
            *("--output-format", "--permission-mode", "--resume", "--session-id", "--model"),
            *("--max-turns", "--max-budget-usd", "--allowedTools"),
        ],
        "prompt": "stdin",
    },
    "codex": {
        "words": ["exec"],
        "flags": ["--json", "--skip-git-repo-check", "--ephemeral"],
        "values": ["--sandbox", "-c", "-m", "--model", "-o"],
        "word_lacks": {"resume": ["--sandbox"]},
        "prompt": "dash",
    },
    "gemini": {
        "flags": ["--skip-trust", "--yolo"],
        "values": ["-p", "--prompt", "--output-format", "--approval-mode", "--resume", "-m", "--session-id"],
        "prompt": "stdin",
    },
    "qwen": {
        "flags": ["--yolo", "--continue", "--fork-session"],
        "values": [
            *("-p", "--prompt", "--output-format", "--resume", "-m", "--session-id", "--auth-type"),
            *("--max-session-turns", "--max-wall-time", "--max-tool-calls"),
        ],
        "prompt": "stdin",
    },
    "opencode": {
        "words": ["run"],
        "flags": ["--auto", "--fork", "-c"],
        "values": ["--format", "-s", "-m", "--agent"],
        "prompt": "stdin",
    },
    "goose": {
        "words": ["run"],
        "flags": ["-r", "--resume", "--no-session"],
        "values": ["--output-format", "-n", "--name", "-i", "-t", "--max-turns", "--max-tool-repetitions"],
        "prompt": "-i",
    },
    "aider": {
        "flags": [
            *("--yes-always", "--no-auto-commits", "--no-dirty-commits", "--no-stream", "--no-pretty"),
            *("--no-check-update", "--no-show-release-notes", "--no-suggest-shell-commands", "--no-auto-lint"),
            *("--no-auto-test", "--no-detect-urls", "--no-gitignore", "--no-show-model-warnings", "--no-analytics"),
        ],
        "values": [
            *("--message-file", "--model", "--edit-format", "--map-tokens"),
            *("--chat-history-file", "--input-history-file", "--analytics-log"),
        ],
        "prompt": "--message-file",
    },
    "cursor": {
        "flags": ["-p", "--force", "--trust", "--continue"],
        "values": ["--output-format", "--resume", "--model"],
        "prompt": "positional",
    },
    "mini": {
        "flags": ["-y", "--exit-immediately"],
        "values": ["-t", "-o", "-l", "-m", "-c"],
        "prompt": "-t",
        "output": "-o",
    },
}
_PROGRAMS = {"cursor": "cursor-agent"}

_SCRIPT = r"""
import json, os, pathlib, sys, time
here = pathlib.Path(__file__).resolve().parent
play = json.loads((here / (pathlib.Path(__file__).name + ".play.json")).read_text())
tool, acts = play["tool"], play["acts"]
log = here / "calls.jsonl"
number = log.read_text().count("\n") if log.exists() else 0
act = acts[min(number, len(acts) - 1)]
given, rest, options = sys.argv[1:], [], {}
if given == ["--version"]:
    print(play["version"])
    sys.exit(0)
while given:
    word = given.pop(0)
    if word in tool["values"] and given:
        options[word] = given.pop(0)
    elif word in tool.get("flags", []):
        options[word] = True
    elif word.startswith("-") and word != "-":
        sys.exit(f"error: unexpected argument {word!r}")
    else:
        rest.append(word)
words = tool.get("words", [])
if rest[: len(words)] != words:
    sys.exit(f"error: expected {words}, got {rest}")
rest = rest[len(words):]
for word, lacking in tool.get("word_lacks", {}).items():
    if word in rest and set(lacking) & set(options):
        sys.exit(f"error: {word} takes no {lacking}")
way = tool["prompt"]
if way == "stdin" or (way == "dash" and rest[-1:] == ["-"]) or (way == "-i" and options.get("-i") == "-"):
    prompt = sys.stdin.read()
elif way == "positional":
    prompt = " ".join(rest)
elif way == "--message-file":
    prompt = pathlib.Path(options[way]).read_text()
else:
    prompt = options.get(way, "")
names = {name: value for name, value in os.environ.items() if name.startswith(("ITERCTL", "GOOSE", "MSWEA"))}
call = {"argv": sys.argv, "options": options, "rest": rest, "prompt": prompt, "cwd": os.getcwd(), "environment": names}
with log.open("a") as stream:
    stream.write(json.dumps(call) + "\n")
if not prompt.strip():
    sys.exit("error: no prompt")
for name, content in act.get("write", {}).items():
    pathlib.Path(name).write_text(content)
if act.get("output_file") and tool.get("output"):
    pathlib.Path(options[tool["output"]]).write_text(act["output_file"])
for stream, text in ((sys.stdout, act["stdout"]), (sys.stderr, act["stderr"])):
    stream.buffer.write(text.encode("utf-8", "surrogateescape"))
    stream.flush()
code = act["exit_code"]
if not isinstance(code, int) or code < 0:
    while True:
        time.sleep(60)
sys.exit(code)
"""


@dataclass(frozen=True, slots=True)
class Recording:
    """What a tool printed once, and how it ended; a negative exit code means that it went on until it was ended."""

    tool: str
    case: str
    exit_code: int
    stdout: str
    stderr: str
    output_file: str = ""
    argv: tuple[str, ...] = ()
    real: bool = True

    @classmethod
    def read(cls, tool: str, case: str) -> Recording:
        found = json.loads((RECORDINGS / tool / f"{case}.json").read_text(encoding="utf-8"))
        return cls(
            tool=tool,
            case=case,
            exit_code=found["exit_code"] if isinstance(found["exit_code"], int) else -15,
            stdout=found["stdout"],
            stderr=found["stderr"],
            output_file=found.get("output_file") or "",
            argv=tuple(found["argv"]),
            real=found.get("source") != "reference",
        )


def recorded(tool: str) -> list[str]:
    """The cases that there are of a tool."""
    return sorted(path.stem for path in (RECORDINGS / tool).glob("*.json"))


@dataclass(frozen=True, slots=True)
class StandIn:
    """One tool's executable in a folder that is to be put on the PATH."""

    folder: Path
    tool: str

    @classmethod
    def make(
        cls, folder: Path, *acts: Recording, write: dict[str, str] | None = None, version: str = "1.2.3"
    ) -> StandIn:
        """Plays one recording per call, the last one again and again; `write` is what it changes in the tree."""
        tool = acts[0].tool
        folder.mkdir(parents=True, exist_ok=True)
        program = folder / _PROGRAMS.get(tool, tool)
        program.write_text(f"#!{sys.executable}\n{_SCRIPT}", encoding="utf-8")
        program.chmod(0o755)
        played = [
            {
                "stdout": act.stdout,
                "stderr": act.stderr,
                "exit_code": act.exit_code,
                "output_file": act.output_file,
                "write": write or {},
            }
            for act in acts
        ]
        play = {"tool": TOOLS[tool], "acts": played, "version": version}
        (folder / f"{program.name}.play.json").write_text(json.dumps(play), encoding="utf-8")
        return cls(folder, tool)

    @property
    def calls(self) -> list[dict[str, Any]]:
        log = self.folder / "calls.jsonl"
        return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()] if log.exists() else []

    def path(self, before: Iterable[str] = ()) -> str:
        return os.pathsep.join([str(self.folder), *before, os.environ.get("PATH", "")])
