"""Finds tests that compare elapsed time with an upper bound.

A machine that is busy, or a process that is stopped for a while, makes such a test fail although nothing is wrong. A lower
bound is allowed: it shows that the code waited.

`problems` takes the paths and texts of Swift files. `python3 elapsed_time_check.py FILE…` checks files.
"""

import re
import sys
from bisect import bisect_right

# An expression that is an elapsed real time. A manual clock is not one, so `clock.now` counts only if the file calls the
# real clock `clock`.
MEASURED = (
    r"(?:ContinuousClock|SuspendingClock)\s*(?:\(\))?\s*\.measure\b",
    r"(?:ContinuousClock|SuspendingClock)\s*(?:\(\))?\s*\.now\s*-(?!>)",
    r"\b(?:NIODeadline|DispatchTime)\s*\.now\(\)\s*-(?!>)",
    r"\bDate\(\)\s*\.timeIntervalSince\(",
    r"\.timeIntervalSinceNow\b",
    r"\.duration\(\s*to:\s*(?:\.now|(?:ContinuousClock|SuspendingClock)\s*(?:\(\))?\s*\.now)\s*\)",
)
# `let start = ContinuousClock.now`, `let clock = ContinuousClock()`.
NAMES_OF_CLOCKS = re.compile(r"\b(?:let|var)\s+(\w+)\s*(?::\s*[\w.]+)?\s*=\s*(?:ContinuousClock|SuspendingClock)\(\)")
# `let elapsed = …` with an elapsed time on its right side, which may begin on the next line.
DECLARATION = re.compile(r"\b(?:let|var)\s+(\w+)\s*(?::\s*[\w.]+)?\s*=\s*")
# Names that say by themselves that they are a measured time.
NAMED = r"\b(?:elapsed|elapsedTime|took)\b"
# A property that is a measured time if it is compared with a duration.
TIME_PROPERTY = re.compile(r"\b\w+\.time\s*$")
DURATION = re.compile(r"^\s*(?:Duration)?\.(?:seconds|milliseconds|microseconds|nanoseconds)\(")
CALLS = re.compile(r"#(?:expect|require)\s*\(|\bXCTAssert\w*\s*\(|\bif\s(?=[^{}]*\{\s*Issue\.record)")
LITERALS = re.compile(r'/\*.*?\*/|//[^\n]*|(#*)"""(?:.*?)"""\1|(#+)".*?"\2|"(?:\\.|[^"\\\n])*"', re.DOTALL)


def blank(text):
    """The text without comments and string literals. Positions and line numbers stay the same."""
    return LITERALS.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)


def argument(text, start):
    """The text of a call from after its parenthesis to the matching one."""
    depth = 1
    for end in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[end], 0)
        if depth == 0:
            return text[start:end]
    return text[start:]


def scope_end(text, start):
    """Where the braces around a position end."""
    depth = 0
    for end in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[end], 0)
        if depth < 0:
            return end
    return len(text)


def first_statement(text, start):
    """The right side of a declaration: to the end of the line, or of the brackets that it opens."""
    depth = 0
    for end in range(start, len(text)):
        depth += {"(": 1, "{": 1, "[": 1, ")": -1, "}": -1, "]": -1}.get(text[end], 0)
        if depth < 0 or (depth == 0 and text[end] == "\n" and text[start:end].strip()):
            return text[start:end]
    return text[start:]


def in_braces(text):
    """The text without the closures in it, whose comparisons are not those of the test."""
    kept, depth = [], 0
    for character in text:
        if character == "}":
            depth -= 1
        kept.append(character if depth <= 0 else " ")
        if character == "{":
            depth += 1
    return "".join(kept)


def operands(text):
    """The comparisons `a < b`, as pairs of the smaller and the larger side. Generic arguments have no spaces around `<`."""
    for part in re.split(r"&&|\|\||,", text):
        match = re.search(r"\s(<=?|>=?)\s", part)
        if match is None:
            continue
        left, right = part[: match.start()], part[match.end() :]
        yield (left, right) if match.group(1).startswith("<") else (right, left)


def problems(files):
    """Returns what is wrong.

    :param files: pairs of a path and the text of the file.
    :return: a list of `path:line: …`.
    """
    found = []
    for path, original in files:
        text = blank(original)
        lines = [match.start() for match in re.finditer(r"\n", text)]
        clocks = set(NAMES_OF_CLOCKS.findall(text))
        patterns = list(MEASURED)
        if clocks:
            clock = r"\b(?:" + "|".join(sorted(clocks)) + r")"
            patterns += [
                clock + r"\.measure\b",
                clock + r"\.now\s*-(?!>)",
                r"\.duration\(\s*to:\s*" + clock + r"\.now\s*\)",
            ]
        measured = re.compile("|".join(patterns))
        # The variables that hold an elapsed time, each with the range in which it is known.
        variables = []
        for match in DECLARATION.finditer(text):
            if measured.search(first_statement(text, match.end())):
                variables.append((match.group(1), match.start(), scope_end(text, match.end())))
        for call in CALLS.finditer(text):
            if text[call.end() - 1] == "(":
                condition = argument(text, call.end())
            else:
                condition = text[call.end() : text.index("{", call.end())]
            names = [name for name, start, end in variables if start < call.start() < end]
            is_time = re.compile(
                "|".join([measured.pattern, NAMED] + [r"(?<![.\w])" + re.escape(name) + r"\b" for name in names])
            )
            # A whole measurement may be the smaller side; its closure is not part of the comparison.
            # In `if … { Issue.record }` the condition is the failure, so the time is the larger side.
            fails = text[call.end() - 1] != "("
            for pair in operands(in_braces(condition)):
                time, bound = reversed(pair) if fails else pair
                if is_time.search(time) or (TIME_PROPERTY.search(time) and DURATION.search(bound)):
                    line = bisect_right(lines, call.start()) + 1
                    found.append(
                        f"{path}:{line}: compares elapsed time with an upper bound; a slow machine fails this test"
                        " (give the operation a deadline that is longer than the test may last, or use a manual clock)"
                    )
                    break
    return found


if __name__ == "__main__":
    texts = []
    for name in sys.argv[1:]:
        with open(name, encoding="utf-8") as file:
            texts.append((name, file.read()))
    lines = problems(texts)
    print("\n".join(lines))
    sys.exit(1 if lines else 0)
