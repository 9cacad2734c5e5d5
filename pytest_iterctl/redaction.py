"""Secrets in text: how they look, which they are, and what is written in their place.

Nothing that a test, an agent or git printed is stored or sent before it has been through here. Pure, total and linear
in its input, as `text.py` is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Final, NamedTuple, TypeVar, cast

from pytest_iterctl.text import strip_escapes

__all__ = ["Redactor", "redact"]

_T = TypeVar("_T")
_compiled: Final = cache(re.compile)

# ── secrets: how they look ───────────────────────────────────────────────────────────────────────────────────────────

_MARK = "[redacted]"
_KEY_MARK = "[redacted:private-key]"
#: A token begins after a character that can't be part of one, or after a line break that repr() spelt out.
_BEGIN = r"(?:(?<![A-Za-z0-9_-])|(?<=\\[nrt]))"
#: By kind: what a text has to contain to be worth a search, and what to search for.
_TOKENS: Final[dict[str, tuple[str, str]]] = {
    "anthropic": ("sk-ant-", r"sk-ant-[\w-]{8,}+"),
    "openai": ("sk-", _BEGIN + r"sk-(?:(?:proj|svcacct|admin|or|lf|test|live)-[\w-]{16,}+|[A-Za-z0-9]{20,}+)"),
    "github": ("gh", r"gh[oprsu]_[A-Za-z0-9]{20,}+"),
    "github-pat": ("github_pat_", r"github_pat_\w{20,}+"),
    "gitlab": ("gl", r"gl(?:pat|dt|rt|ft|ptt|cbt|soat|agent)-[\w-]{16,}+"),
    "aws": ("IA", _BEGIN + r"A(?:KI|SI)A[A-Z0-9]{16}(?![A-Za-z0-9])"),
    "slack": ("xox", r"xox[a-z]-[\w-]{10,}+"),
    "slack-app": ("xapp-", r"xapp-[\w-]{10,}+"),
    "slack-hook": ("hooks.slack.com/", r"(?<=hooks\.slack\.com/services/)[\w/]{16,}+"),
    "google": ("AIza", _BEGIN + r"AIza[\w-]{35}"),
    "google-oauth": ("ya29.", _BEGIN + r"ya29\.[\w-]{20,}+"),
    "google-client": ("GOCSPX-", _BEGIN + r"GOCSPX-[\w-]{20,}+"),
    "npm": ("npm_", r"npm_[A-Za-z0-9]{30,}+"),
    "pypi": ("pypi-", r"pypi-(?:AgE[\w-]{16,}+|[\w-]{60,}+)"),
    "stripe": ("k_", _BEGIN + r"[rs]k_(?:live|test)_[A-Za-z0-9]{10,}+"),
    "stripe-hook": ("whsec_", r"whsec_[A-Za-z0-9+/]{20,}+=*"),
    "huggingface": ("hf_", _BEGIN + r"hf_[A-Za-z0-9]{30,}+"),
    "sendgrid": ("SG.", _BEGIN + r"SG\.[\w-]{16,}+\.[\w-]{16,}+"),
    "jwt": ("eyJ", _BEGIN + r"eyJ[\w-]{8,}+\.(?:eyJ[\w-]{8,}+(?:\.[\w-]*+)?|[\w-]{10,}+\.[\w-]{5,}+)"),
}
_MARKS = " ".join([_MARK, _KEY_MARK, *(f"[redacted:{kind}]" for kind in _TOKENS)])

_KEY_KIND = r"[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?"
#: A whole key, or its head and as many lines as there are. Reports put signs before lines, repr() spells line breaks.
_KEY = (
    rf"-----BEGIN {_KEY_KIND}-----(?:(?:[^-]|-(?!----)){{0,20000}}+-----END {_KEY_KIND}-----"
    r"|(?:(?:\\+[nr])*+[\s\"'>|+,-]*+(?:E\s++)?[A-Za-z0-9+/]{16,}+={0,2})*+)"
)

_BLANKS = r"[ \t]{0,8}"
_HEADER_WORD = r"[^\s\"'\\,;<>()\[\]{}]"
_HEADER_COLON = (
    rf"(?:\\?[\"'],(?={_BLANKS}b?\\?[\"'])|\\?[\"']?{_BLANKS}(?::|=(?!=))){_BLANKS}"
    r"(?!\[redacted)[\[(]?(?:b(?=\\?[\"']))?\\?[\"']?"
)
_HEADER_VALUE = r"(?:=\"[^\"\r\n]*+\"|[^\r\n\"'\\]|\\[^rn\r\n])++"
_AUTHORIZATION = (
    rf"(?i)(?P<name>authorization{_HEADER_COLON})(?:"
    rf"(?P<fields>(?:digest|hawk|oauth|aws4-[\w-]+)[ \t]++){_HEADER_VALUE}"
    r"|(?P<scheme>(?:bearer|basic|token|apikey|negotiate|ntlm"
    rf"|[a-z][\w-]{{1,20}}(?=[ \t]+[a-z._~+/=-]{{0,40}}[0-9][\w.~+/=-]{{7}}))[ \t]++)?(?P<value>{_HEADER_WORD}++))"
)
_BEARER = r"(?i)(bearer[ \t]++)(?=[a-z._~+/-]{0,40}[0-9])[\w.~+/-]{8,}+=*"
_COOKIE = rf"(?i)(cookie2?{_HEADER_COLON})(?=[\w!#$%&*+.^|~-]{{1,200}}=(?!=)){_HEADER_VALUE}"
_NETRC = r"((?:\bmachine\s++\S++|\bdefault)\s++(?:(?:login|account)\s++\S++\s++){0,2}password\s++)(?!\[redacted)\S++"
_USERINFO = r"://([^\s/?#\"'<>\\]*)@"
_ENTROPIC = (
    rf"(?a)(?:(?<![=!<>~:])=(?![=~])>?|(?<!:):(?![:/])=?){_BLANKS}(?:[bru](?=\\?[\"']))?\\?[\"']?"
    r"(?P<value>[\w+/-]{20,}+={0,2})(?!\.\w|[(\[@%:])"
)
_PUBLIC_NAME = r"(?i)(?:sha[0-9-]*|digest|checksum|hash|integrity|etag|md5)[\"'\\ ]*\Z|\barn:[^\s\"']*\Z"

_SENSITIVE = (
    r"(?i)(?:password|passwd|passphrase|pwd|secret|token|credentials?"
    r"|(?:api|access|private|secret|signing|encryption|account|master|auth|shared)[_.-]?key"
    r"|(?-i:(?<=_)PASS|(?<![A-Za-z0-9])_auth))(?:[_-]?(?:key|value|base|[0-9]{1,4})){0,2}"
)
#: One of these is in every name of the pattern above; looking for them first is ten times as fast.
_SENSITIVE_PARTS = ("pass", "pwd", "secret", "token", "credential", "key", "_auth")
_ASSIGNED = (
    rf"{_SENSITIVE}(?P<close>\\?[\"']?\]?)(?P<separator>{_BLANKS}(?:"
    rf":{_BLANKS}(?:(?:Final|ClassVar|Optional)\[)?(?:str|bytes|string|SecretStr|Final)\]?(?:{_BLANKS}\|{_BLANKS}None)?"
    rf"{_BLANKS}=(?!=)|:=|=>|=(?![=~>])|:(?![:/])){_BLANKS}|,?[ \t]{{1,8}}|,)(?:"
    r"(?P<prefix>[bruf]{1,2}(?=\\?[\"']))?(?P<quote>\"\"\"|'{3}|\\?[\"'])"
    r"(?P<quoted>(?:(?!(?P=quote))(?:\\.|[^\\\r\n]))*+)(?P=quote)"
    r"|\\?[\"']?(?P<bare>[^\s\"'`,;()\[\]{}<>|&\\=]++={0,2}))"
)
_REST_OF_VALUE = r"(?:\[redacted[^\]\s]*\]|[^\s\"'`,;()\[\]{}&])*+"
#: Values that give nothing away: none at all, a word about a value, a type, a place where the value will be or is kept.
_HARMLESS = (
    r"(?i)[\W_]*+|\[redacted(?::[a-z-]+)?\]|x{3,}"
    r"|none|null|nil|true|false|yes|no|undefined|nan|unset|empty|missing|required|optional|invalid|valid|expired|unknown"
    r"|wrong|incorrect|absent|present|hidden|masked|redacted|changed|enabled|disabled|mismatch|read|write|include|omit"
    r"|inherit|same-origin|is|was|are|be|has|had|not|and|or|to|for|in|of|on|off|if|the|an?|it|must|may|can|cannot|should"
    r"|will|with|without|from|via|given|options?|flags?|arguments?|parameters?|value|field|needs|requires|expected|got|found"
    r"|authentication|authorization|auth|scheme|realm|header"
    r"|str|string|bytes|bytearray|int|integer|float|bool|boolean|number|object|any|union|list|dict|tuple|set|callable"
    r"|<.*>|\{.*\}|\$[{(].*|(?-i:\$[A-Z_][A-Z0-9_]*)|\$[a-z_]+|%\(.*|%[a-z_]+%|\*[a-z_]+"
    r"|!(?:vault|env|ref|reference|sub|secret|include)\b.*|[a-z][a-z0-9+.-]*+://.*|arn:.*|[a-z]:\\.*"
)
_PATH = r"(?:~|\.{1,2})?/[\w.@+ -]+(?:/[\w.@+ -]*)*"
_NAME_CHARACTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"

#: Variables of every shell, and no passwords: where it is, and was.
_FOLDERS = frozenset({"PWD", "OLDPWD"})

_LONG_WORD = 16  # letters; longer ones are rarely words
_RANDOM_LENGTH = 20
_RANDOM_ENTROPY = 3.5  # bits per character; 20 characters drawn from 62 have about 4
_RANDOM_RUN = 3  # characters of one kind (small, capital, digit) in a row, on average; words have more
_RANDOM_RUN_JOINED = 2.5  # where dashes and the like make it look like a name anyway


def redact(text: str) -> str:
    """Every secret that can be told by its looks or its name as `[redacted]` or `[redacted:kind]`.

    Redacting again changes nothing.
    """
    # What one pass takes away may show something to the next; only text made for the purpose needs more than two.
    for _ in range(5):
        again = _redact_once(text)
        if again == text:
            break
        text = again
    return text


def _redact_once(text: str) -> str:
    if "PRIVATE KEY" in text:
        text = _without_key_tails(_compiled(_KEY).sub(_KEY_MARK, text))
    for kind, (part, pattern) in _TOKENS.items():
        if part in text:
            text = _compiled(f"(?a){pattern}").sub(f"[redacted:{kind}]", text)
    if "://" in text:
        text = _compiled(_USERINFO).sub(_redact_userinfo, text)
    lowered = text.lower()
    if "authorization" in lowered:
        text = _compiled(_AUTHORIZATION).sub(_redact_authorization, text)
    for part, pattern in (("bearer", _BEARER), ("cookie", _COOKIE), ("password", _NETRC)):
        if part in lowered:
            text = _compiled(pattern).sub(rf"\1{_MARK}", text)
    if any(part in lowered for part in _SENSITIVE_PARTS):
        text = _redact_assigned(text)
    return _compiled(_ENTROPIC).sub(_redact_entropic, text)


def _without_key_tails(text: str) -> str:
    """A key whose head was cut away is known by its END line; the lines of base64 before it go with it."""
    pieces = []
    done = 0
    for end in _compiled(rf"-----END {_KEY_KIND}-----").finditer(text):
        lines = _compiled(r"(\n|\\n)").split(text[done : end.start()])
        kept = len(lines)
        shortest = 1  # only the last line of a key is short
        for index in range(len(lines) - 1, -1, -2):
            line = lines[index].strip(" \t\r\"'>|+-,\\")
            if _compiled(rf"(?:E\s++)?[A-Za-z0-9+/]{{{shortest},}}={{0,2}}").fullmatch(line):
                kept, shortest = index, 16
            elif line or index < len(lines) - 1:
                break
        pieces += [*lines[:kept], _KEY_MARK]
        done = end.end()
    return "".join(pieces) + text[done:]


def _redact_userinfo(match: re.Match[str]) -> str:
    user, _, password = match[1].partition(":")
    return match[0] if _is_harmless(password) and not _is_random(user) else f"://{_MARK}@"


def _redact_authorization(match: re.Match[str]) -> str:
    value = match["value"]
    # A list of header names goes on with the next name.
    telling = match["scheme"] or ("," not in match["name"] and value and _is_long_or_numbered(value))
    if value and (_is_harmless(value) or not telling):
        return match[0]
    return f"{match['name']}{match['fields'] or match['scheme'] or ''}{_MARK}"


def _redact_entropic(match: re.Match[str]) -> str:
    name = match.string[max(match.start() - 64, 0) : match.start()]
    if not _is_random(match["value"]) or _compiled(_PUBLIC_NAME).search(name):
        return match[0]
    return match[0].removesuffix(match["value"]) + _MARK


def _redact_assigned(text: str) -> str:
    search = _compiled(_ASSIGNED).search
    pieces = []
    done = position = 0
    while match := search(text, position):
        kind = "bare" if match["quoted"] is None else "quoted"
        position, end = match.span(kind)
        # What isn't a secret may hold the next name, so the search goes on inside it.
        if _Assignment.read(match, kind).is_secret():
            pieces += [text[done:position], _MARK]
            rest = _compiled(_REST_OF_VALUE).match(text, end) if kind == "bare" else None
            done = position = rest.end() if rest else end
    return "".join(pieces) + text[done:]


class _Assignment(NamedTuple):
    """Something that looks like `name = value`, `name: value` or `--name value`, where the name looks secret."""

    name: str
    separator: str
    value: str
    quoted: bool
    computed: bool = False  # from other values, so that nothing can be read from it
    alone: bool = False  # on its line
    after: str = ""

    @classmethod
    def read(cls, match: re.Match[str], kind: str) -> _Assignment:
        text, end = match.string, match.end(kind)
        start = max(match.start() - 64, 0)
        before = text[start : match.start()]
        name_start = len(before.rstrip(_NAME_CHARACTERS))
        indent = before[:name_start].rstrip(" \t-\\\"'")
        starts_line = indent.endswith("\n") or not (start or indent)
        prefix = (match["prefix"] or "").lower()
        after = text[end : end + 9]
        called = kind == "bare" and after[:1] in {"(", "["} and after != "[redacted"
        return cls(
            name=before[name_start:] + text[match.start() : match.start("close")],
            separator=match["separator"],
            value=match[kind],
            quoted=kind == "quoted",
            alone=starts_line and _compiled(r"[ \t\r]{0,8}(?:#|\n|\Z)").match(text, end) is not None,
            computed=called or "r" in prefix or ("f" in prefix and "{" in match[kind]),
            after=after[:1],
        )

    def is_secret(self) -> bool:
        if self.computed or not self._is_assigned() or (self._is_bare_token() and not self._could_be_token()):
            return False
        if self._says_nothing():
            return False
        if self.quoted:
            return "phrase" in self.name.lower() or not self._is_prose()
        return self._is_literal_word() if self._is_word() else self._is_literal()

    @property
    def _key(self) -> str:
        return self.name.lstrip("-").rpartition(".")[2]

    @property
    def _is_password(self) -> bool:
        return "pass" in self.name.lower() or "pwd" in self.name.lower()

    def _is_assigned(self) -> bool:
        if ":" in self.separator or "=" in self.separator:
            return True
        if not self.name.startswith("--") or self.value.startswith("-"):
            return False
        return not (self.value.isupper() and self._is_word())

    def _says_nothing(self) -> bool:
        if len(self.value) < 3 or _is_harmless(self.value) or self.value.lower() == self._key.lower():  # noqa: PLR2004
            return True
        # `"input_token": "NextToken"` names another one; as a password people do take such words.
        return self._is_word() and not self._is_password and _is_secret_name(self.value)

    def _is_bare_token(self) -> bool:
        """Parsers have tokens too, `token: IDENT` and `token = '('`; a setting would have a longer name."""
        return self._key in {"token", "Token"} and not self.name.startswith("--")

    def _could_be_token(self) -> bool:
        if _has_digit(self.value):
            return len(self.value) >= 8 and not self.value.isdigit()  # noqa: PLR2004 - `x1` and `item12` are words
        return len(self.value) > 10 and self.value.isalpha() and not self.value.isupper()  # noqa: PLR2004 - IDENTIFIER

    def _is_prose(self) -> bool:
        blanks = self.value.strip().count(" ")
        return blanks >= 3 or (blanks > 0 and not _has_digit(self.value))  # noqa: PLR2004 - a sentence

    def _is_word(self) -> bool:
        return _compiled(r"_*[A-Za-z]+(?:[_.-]+[A-Za-z]+)*[_.:!?]*").fullmatch(self.value) is not None

    def _is_literal_word(self) -> bool:
        """A word is a value in a shell or a settings file; in code it is a name, in prose it is a word."""
        if _compiled(_SENSITIVE).search(self.value):
            return False
        if self.name.startswith("--") or (self.separator == "=" and self.name.isupper()):
            return True
        if self.separator == "=" and self._is_password and self.after not in {",", ")"}:
            return True
        if ":" in self.separator and self.alone and not self.value.lstrip("_")[0].isupper():
            return True
        return _is_long_or_numbered(self.value)

    def _is_literal(self) -> bool:
        if _compiled(r"[0-9.,:%+-]+").fullmatch(self.value) or len(self.value) < 4:  # noqa: PLR2004 - nothing to hide
            return self._is_password and len(self.value) >= 4  # noqa: PLR2004
        if (
            "=" in self.separator
            and not self.name.isupper()
            and _compiled(r"[a-z_]\w*(?:\.[a-z_]\w*)*").fullmatch(self.value)
        ):
            return "." not in self.value and not _compiled(_SENSITIVE).search(self.value)  # else another name
        return True


def _is_long_or_numbered(value: str) -> bool:
    return _has_digit(value) or (len(value) >= _LONG_WORD and value.isalpha())


def _has_digit(value: str) -> bool:
    return _compiled("[0-9]").search(value) is not None


def _is_harmless(value: str) -> bool:
    if _compiled(_HARMLESS).fullmatch(value):
        return True
    return _compiled(_PATH).fullmatch(value) is not None and not _is_random(value.lstrip("~./"))


def _is_random(value: str) -> bool:
    """Looks drawn by lot. Digests in hexadecimal, UUIDs, ULIDs, paths and names made of words don't."""
    if len(value) < _RANDOM_LENGTH or value[0] in "/.~" or not _has_digit(value):
        return False
    if _compiled(r"(?i)[0-9a-f-]+|[0-7][0-9A-HJKMNP-TV-Z]{25}").fullmatch(value):
        return False
    # Branches, pods and models have digits and dashes in their names, but no capitals.
    joined = _compiled("[/_-]").search(value) is not None
    if joined and (value.islower() or value.isupper()):
        return False
    runs = _compiled("[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+").findall(value)
    longest_run = _RANDOM_RUN_JOINED if joined else _RANDOM_RUN
    return sum(map(len, runs)) < longest_run * len(runs) and _entropy(value) >= _RANDOM_ENTROPY


def _entropy(value: str) -> float:
    """Shannon's, in bits per character."""
    from math import log2  # noqa: PLC0415 - few texts need it

    shares = [value.count(character) / len(value) for character in set(value)]
    return -sum(share * log2(share) for share in shares)


# ── secrets: which they are ──────────────────────────────────────────────────────────────────────────────────────────

_SHORTEST_VALUE = 6


@dataclass(frozen=True, slots=True)
class Redactor:
    """`redact`, and the exact values that the caller knows to be secret (those of at least 6 characters)."""

    values: frozenset[str] = field(default=frozenset(), repr=False)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Redactor:
        """Knows the values of variables with secret-looking names, and the passwords in the URLs of all."""
        values = set()
        for name, value in environment.items():
            if name in _FOLDERS:
                continue
            if _is_secret_name(name) or (name.upper().endswith("_KEY") and _is_random(value)):
                values.add(value)
            values.update(userinfo.partition(":")[2] for userinfo in _compiled(_USERINFO).findall(value))
        return cls(frozenset(value for value in values if not _is_harmless(value)))

    def __call__(self, text: str) -> str:
        for value, pattern in _spellings(self.values):
            # A plain word may be part of others: with the password `postgres`, test_postgres.py is still a file.
            text = pattern.sub(_MARK, text) if pattern else text.replace(value, _MARK)
        return redact(text)

    def deep(self, value: _T) -> _T:
        """The same JSON with every string redacted, keys untouched; a string under a secret-looking key as a whole."""
        return cast("_T", self._deep(value))

    def _deep(self, value: object, key: object = None) -> object:
        if isinstance(value, str):
            return self._under(key, value) if isinstance(key, str) else self(value)
        if isinstance(value, dict):
            return {name: self._deep(item, name) for name, item in value.items()}
        if isinstance(value, list):
            return [self._deep(item, key) for item in value]
        return tuple(self._deep(item, key) for item in value) if isinstance(value, tuple) else value

    def _under(self, key: str, value: str) -> str:
        for header in ("authorization: ", "cookie: "):
            if f"{key.lower()}: ".endswith(header):
                return self(header + value).removeprefix(header)
        clean = self(value)
        if _is_secret_name(key) and _Assignment(key, ": ", clean, quoted=True).is_secret():
            return _MARK
        return clean


def _is_secret_name(name: str) -> bool:
    return _compiled(rf"{_SENSITIVE}\Z").search(name) is not None


@cache
def _spellings(values: frozenset[str]) -> tuple[tuple[str, re.Pattern[str] | None], ...]:
    """Each value as it may turn up (as it is, stripped, in JSON, in a repr, in a URL), the longest first."""
    from urllib.parse import quote, quote_plus  # noqa: PLC0415 - only who has secrets needs it

    spelt = set()
    for value in values:
        quoted = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
        in_url = {quote(value, safe="", errors="replace"), quote_plus(value, errors="replace")}
        spelt |= {value, value.strip(), strip_escapes(value), quoted, repr(value)[1:-1], *in_url}
    usable = sorted(
        (each for each in spelt if len(each) >= _SHORTEST_VALUE and each not in _MARKS), key=len, reverse=True
    )
    return tuple(
        (each, re.compile(rf"(?:(?<!\w)|(?<=\\[nrt])){each}(?!\w)") if each.isalpha() else None) for each in usable
    )
