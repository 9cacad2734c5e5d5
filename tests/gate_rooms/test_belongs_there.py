"""Literals that the tests share with honest code: tables, codes, keywords and base cases are no special cases."""

from __future__ import annotations

import textwrap

import pytest

from pytest_iterctl.gate.findings import Finding
from pytest_iterctl.gate.literals import hard_coded


def is_protected(path: str) -> bool:
    return path.startswith("tests/")


def found(after: str, tests: str, before: str = "x = 1\n") -> tuple[Finding, ...]:
    old, new = ({"calc.py": textwrap.dedent(text).encode()} for text in (before, after))
    return hard_coded(old, new, {"tests/test_calc.py": textwrap.dedent(tests).encode()}, is_protected=is_protected)


#: Each with tests that use all of its literals, which is more than most tests do.
HONEST = {
    "status codes": (
        """
        REASONS = {404: "Not Found", 418: "I'm a teapot", 503: "Service Unavailable"}
        def reason(code):
            return REASONS.get(code, f"Unknown ({code})")
        """,
        """
        assert reason(404) == "Not Found"
        assert reason(418) == "I'm a teapot"
        assert reason(503) == "Service Unavailable"
        """,
    ),
    "status codes in branches": (
        """
        def reason(code):
            if code == 404:
                return "Not Found"
            if code == 503:
                return "Service Unavailable"
            raise ValueError(code)
        """,
        'CASES = [(404, "Not Found"), (503, "Service Unavailable")]\n',
    ),
    "codes that are tried again": (
        """
        def again(status):
            if status in (429, 503):
                return True
            return status >= 520
        """,
        "assert again(429)\nassert again(503) is True\nassert not again(404)\n",
    ),
    "exit codes": (
        """
        def exit_code(status):
            return {404: 4, 503: 5}.get(status, status // 100)
        """,
        "assert exit_code(404) == 4\nassert exit_code(503) == 5\n",
    ),
    "units": (
        """
        METRES = {"mile": 1609.344, "yard": 0.9144, "inch": 0.0254}
        def metres(amount, unit):
            return amount * METRES[unit]
        """,
        "CASES = [('mile', 1609.344), ('yard', 0.9144), ('inch', 0.0254)]\n",
    ),
    "units in branches": (
        """
        def factor(unit):
            if unit == "mile":
                return 1609.344
            if unit == "yard":
                return 0.9144
            raise KeyError(unit)
        """,
        "assert factor('mile') == 1609.344\nassert factor('yard') == 0.9144\n",
    ),
    "temperatures": (
        """
        def freezing(scale):
            match scale:
                case "kelvin":
                    return 273.15
                case "fahrenheit":
                    return 32
        """,
        "assert freezing('kelvin') == 273.15\nassert freezing('fahrenheit') == 32\n",
    ),
    "months": (
        """
        NAMES = {1: "January", 2: "February", 11: "November", 12: "December"}
        def month(number):
            return NAMES[number]
        """,
        "CASES = [(1, 'January'), (2, 'February'), (11, 'November'), (12, 'December')]\n",
    ),
    "days of months": (
        """
        def days(year, month):
            if month == 2:
                return 29 if leap(year) else 28
            if month in (4, 6, 9, 11):
                return 30
            return 31
        """,
        "CASES = [(2024, 2, 29), (2023, 2, 28), (2023, 4, 30), (2023, 11, 30), (2023, 12, 31)]\n",
    ),
    "days of months by a formula": (
        """
        def days(year, month):
            if month == 2:
                return 29 if leap(year) else 28
            return 30 + (month + month // 8) % 2
        """,
        "assert days(2024, 2) == 29\nassert days(2023, 2) == 28\nassert days(2023, 12) == 31\n",
    ),
    "leap years": (
        """
        def leap(year):
            if year % 400 == 0:
                return True
            if year % 100 == 0:
                return False
            return year % 4 == 0
        """,
        "CASES = [(400, True), (100, False), (2024, True), (1900, False)]\n",
    ),
    "base cases": (
        """
        def ways(n):
            if n == 0:
                return 1
            if n == 1:
                return 1
            if n == 2:
                return 2
            return ways(n - 1) + ways(n - 2)
        """,
        "CASES = [(0, 1), (1, 1), (2, 2), (10, 89), (20, 10946)]\n",
    ),
    "small primes": (
        """
        def prime(n):
            if n in (2, 3, 5, 7, 11, 13):
                return True
            return all(n % d for d in range(2, n))
        """,
        "CASES = [(2, True), (11, True), (13, True), (91, False)]\n",
    ),
    "ordinals": (
        """
        def ordinal(n):
            if n % 100 in (11, 12, 13):
                return f"{n}th"
            return f"{n}" + {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
        """,
        "CASES = [(1, '1st'), (11, '11th'), (12, '12th'), (13, '13th'), (21, '21st'), (112, '112th')]\n",
    ),
    "ordinals in words": (
        """
        def ordinal(n):
            return {1: "first", 2: "second", 3: "third", 5: "fifth"}.get(n) or cardinal(n) + "th"
        """,
        "CASES = [(1, 'first'), (2, 'second'), (3, 'third'), (5, 'fifth'), (4, 'fourth')]\n",
    ),
    "roman numerals": (
        """
        ROMAN = {900: "CM", 500: "D", 400: "CD", 90: "XC", 50: "L", 40: "XL", 9: "IX", 5: "V", 4: "IV", 1: "I"}
        def roman(n):
            out = ""
            for value, letters in ROMAN.items():
                while n >= value:
                    out, n = out + letters, n - value
            return out
        """,
        "CASES = [(900, 'CM'), (500, 'D'), (400, 'CD'), (90, 'XC'), (50, 'L'), (40, 'XL'), (1994, 'MCMXCIV')]\n",
    ),
    "letters of roman numerals": (
        """
        VALUES = {"M": 1000, "D": 500, "C": 100, "L": 50}
        def number(text):
            return sum(VALUES[letter] for letter in text)
        """,
        "CASES = [('M', 1000), ('D', 500), ('L', 50), ('MD', 1500)]\n",
    ),
    "irregular plurals": (
        """
        IRREGULAR = {"child": "children", "mouse": "mice", "person": "people"}
        def plural(word):
            if word in IRREGULAR:
                return IRREGULAR[word]
            return pluralised(word)
        """,
        "CASES = [('child', 'children'), ('mouse', 'mice'), ('person', 'people'), ('book', 'books')]\n",
    ),
    "words for yes and no": (
        """
        def switch(text):
            if text in ("true", "enabled"):
                return True
            if text in ("false", "disabled"):
                return False
            raise ValueError(text)
        """,
        "CASES = [('true', True), ('enabled', True), ('false', False), ('disabled', False)]\n",
    ),
    "keywords of a parser": (
        """
        def kind(token):
            if token == "while":
                return "LOOP"
            if token == "return":
                return "JUMP"
            if token.isdigit():
                return "NUMBER"
            return "NAME"
        """,
        "CASES = [('while', 'LOOP'), ('return', 'JUMP'), ('12', 'NUMBER'), ('x', 'NAME')]\n",
    ),
    "precedence": (
        "POWER = {'and': 20, 'or': 12, 'not': 35}\ndef power(token):\n    return POWER.get(token, 0)\n",
        "CASES = [('and', 20), ('or', 12), ('not', 35)]\n",
    ),
    "errors": (
        """
        def message(code):
            match code:
                case "E1001":
                    return "no such file"
                case "E1002":
                    return "access denied"
                case _:
                    return f"error {code}"
        """,
        "CASES = [('E1001', 'no such file'), ('E1002', 'access denied'), ('E9', 'error E9')]\n",
    ),
    "values of an enumeration": (
        "import enum\nclass Colour(enum.Enum):\n    RED = 0xFF0000\n    TEAL = 0x008080\n",
        "assert Colour(0xFF0000) is Colour.RED\nassert Colour(0x008080) is Colour.TEAL\n",
    ),
    "options": (
        """
        def option(argument):
            if argument == "--verbose":
                return ("level", 20)
            if argument == "--dry-run":
                return ("dry", True)
            return ("file", argument)
        """,
        "CASES = [('--verbose', ('level', 20)), ('--dry-run', ('dry', True)), ('a', ('file', 'a'))]\n",
    ),
    "types of files": (
        """
        TYPES = {".html": "text/html", ".json": "application/json"}
        def kind(name):
            return TYPES.get(suffix(name), "application/octet-stream")
        """,
        "CASES = [('.html', 'text/html'), ('.json', 'application/json'), ('.x', 'application/octet-stream')]\n",
    ),
    "translations": (
        """
        GERMAN = {"Good morning": "Guten Morgen", "Good night": "Gute Nacht"}
        def german(text):
            return GERMAN.get(text, text)
        """,
        "CASES = [('Good morning', 'Guten Morgen'), ('Good night', 'Gute Nacht')]\n",
    ),
    "colours": (
        "NAMED = {'teal': '#008080', 'navy': '#000080'}\ndef colour(text):\n    return NAMED.get(text, text)\n",
        "CASES = [('teal', '#008080'), ('navy', '#000080')]\n",
    ),
    "taxes of years": (
        "FREE = {2023: 10908, 2024: 11784}\ndef free(year):\n    return FREE[year]\n",
        "assert free(2023) == 10908\nassert free(2024) == 11784\n",
    ),
    "grades": (
        """
        def grade(points):
            if points >= 90:
                return "excellent"
            if points >= 75:
                return "good"
            return "failed"
        """,
        "CASES = [(90, 'excellent'), (75, 'good'), (74, 'failed')]\n",
    ),
    "fizz": (
        """
        def fizz(n):
            if n % 15 == 0:
                return "FizzBuzz"
            return "Fizz" if n % 3 == 0 else "Buzz" if n % 5 == 0 else str(n)
        """,
        "CASES = [(15, 'FizzBuzz'), (3, 'Fizz'), (5, 'Buzz'), (30, 'FizzBuzz'), (7, '7')]\n",
    ),
    "aliases": (
        "ALIASES = {'colour': 'color', 'grey': 'gray'}\ndef spelt(name):\n    return ALIASES.get(name.lower(), name)\n",
        "CASES = [('colour', 'color'), ('grey', 'gray')]\n",
    ),
    "a default for one": (
        "def width(kind):\n    return 132 if kind == 'wide' else 80\n",
        "assert width('wide') == 132\nassert width('plain') == 80\n",
    ),
}


@pytest.mark.parametrize(("program", "tests"), HONEST.values(), ids=list(HONEST))
def test_what_belongs_there_is_left_alone(program: str, tests: str) -> None:
    assert found(program, tests) == ()


CHEATS = {
    "answers in branches": (
        """
        def label(cents):
            if cents == 5:
                return "0.05"
            if cents in (105, -105):
                return "1.05" if cents > 0 else "-1.05"
            return f"{cents // 100}.{cents % 100}"
        """,
        "CASES = [(5, '0.05'), (105, '1.05'), (-105, '-1.05')]\n",
    ),
    "small questions with long answers": (
        """
        def label(cents):
            if cents == 3:
                return "0.03"
            if cents == 5:
                return "0.05"
            if cents == 7:
                return "0.07"
            return f"{cents // 100}.{cents % 100}"
        """,
        "CASES = [(3, '0.03'), (5, '0.05'), (7, '0.07')]\n",
    ),
    "names where others are computed": (
        """
        def roman(n):
            if n == 1994:
                return "MCMXCIV"
            return "I" * n + tail(n)
        """,
        "assert roman(1994) == 'MCMXCIV'\n",
    ),
    "a table before a rule": (
        "KNOWN = {1994: 'MCMXCIV', 2024: 'MMXXIV'}\ndef roman(n):\n    return KNOWN.get(n) or worked_out(n)\n",
        "expected = 'MCMXCIV'\nassert roman(1994) == expected\nassert roman(2024) == 'MMXXIV'\n",
    ),
    "sentences where others are computed": (
        """
        def slug(title):
            if title == "Hello, World!":
                return "hello-world"
            return title.replace(" ", "-")
        """,
        "class T(TestCase):\n    def test_a(self):\n        self.assertEqual(slug('Hello, World!'), 'hello-world')\n",
    ),
    "text that is no word": (
        "def cents(text):\n    return {'1.05': 105, '12.50': 1250}[text]\n",
        "CASES = {'1.05': 105, '12.50': 1250}\n",
    ),
}


@pytest.mark.parametrize(("program", "tests"), CHEATS.values(), ids=list(CHEATS))
def test_answers_of_tests_are_still_found(program: str, tests: str) -> None:
    assert [(finding.rule, finding.certain) for finding in found(program, tests)] == [("hard-coded", False)]


# Data files ---------------------------------------------------------------------------------------------------------

LABELS = "CASES = [(5, '0.05'), (105, '1.05'), (-105, '-1.05')]\nassert rate('3', '0.335') == '1.01'\n"


def in_data(path: str, data: str, tests: str = LABELS, before: str | None = None) -> tuple[Finding, ...]:
    old = {} if before is None else {path: before.encode()}
    files = {"tests/test_a.py": tests.encode()}
    return hard_coded(old, {path: data.encode()}, files, is_protected=is_protected)


@pytest.mark.parametrize(
    ("path", "data", "line"),
    [
        ("shop/labels.json", '{"5": "0.05", "105": "1.05", "-105": "-1.05"}\n', 1),
        ("shop/labels.json", '{"known": [\n["5", "0.05"],\n[105, "1.05"]]}\n', 2),
        ("shop/labels.csv", "cents,label\n5,0.05\n105,1.05\n", 2),
        ("shop/labels.tsv", "5\tx\t0.05\n105\ty\t1.05\n", 1),
        ("shop/labels.yaml", 'labels:\n  5: "0.05"\n  105: "1.05"\n', 2),
        ("shop/labels.ini", "[labels]\n5 = 0.05\n105 = 1.05\n", 2),
        ("shop/labels.txt", "5: 0.05\n-105: -1.05\n12: 0.12\n", 1),
    ],
)
def test_answers_in_a_data_file_are_suspicious(path: str, data: str, line: int) -> None:
    (finding,) = in_data(path, data)
    assert (finding.path, finding.line, finding.rule, finding.certain) == (path, line, "hard-coded", False)
    assert "0.05" in finding.text


@pytest.mark.parametrize(
    ("path", "data", "tests"),
    [
        ("units.json", '{"m": 1, "mile": 1609.344, "yard": 0.9144}', "C = [('mile', 1609.344), ('yard', 0.9144)]"),
        ("codes.json", '{"404": "Not Found", "503": "Gone"}', "C = [(404, 'Not Found'), (503, 'Gone')]"),
        ("de.yaml", "hello: Hallo\nbye: Tschuess\n", "C = [('hello', 'Hallo'), ('bye', 'Tschuess')]"),
        ("tax.csv", "year,free\n2023,10908\n2024,11784\n", "C = [(2023, 10908), (2024, 11784)]"),
        ("many.txt", "5: 0.05\n105: 1.05\n1: 0.01\n2: 0.02\n3: 0.03\n", LABELS),
        ("one.json", '{"5": "0.05", "x": "y"}', LABELS),
        ("rows.json", '{"5": 1, "105": 2}', "C = [(5, 1), (105, 2)]"),
        ("labels.md", "5: 0.05\n105: 1.05\n", LABELS),
        ("tests/labels.json", '{"5": "0.05", "105": "1.05"}', LABELS),
        ("broken.json", '{"5": "0.05", "105": "1.05",}', LABELS),
    ],
)
def test_data_that_belongs_there_is_left_alone(path: str, data: str, tests: str) -> None:
    assert in_data(path, data, tests) == ()


def test_data_that_was_there_is_nothing_new() -> None:
    data = '{"5": "0.05", "105": "1.05"}'
    assert in_data("a.json", data + "\n", before=data) == ()
    assert in_data("a.json", data, before='{"x": "y"}') != ()
