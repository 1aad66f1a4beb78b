#!/usr/bin/env python3
"""Texts that people read use the field's standard terms: no string literal, no document has a word of the list below.

  tests/language.py [FOLDER]    FOLDER: the root of a checkout, by default this one. Exit code 1: a line for each find
  tests/language.py --self-test   planted finds are found, and what is allowed is not

Read: string literals of C++ in sim/, runtime/, calibrate/, python/ (comments are for programmers and are not read), and
the prose of README.md and docs/*.md without `code` and indented blocks.

Not here: whether a sentence is good.
"""

import glob
import os
import re
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# What is found, and what to say instead.
FORBIDDEN = [
    (r"\brounds?\b(?! robin)", "gradient accumulation steps"),
    (r"\bcards?\b", "GPU"),
    (r"\brooms?\b", "module"),
    (r"\b(?:reckon\w*)\b", "estimated"),
    (r"(?<!-)\bbound\b(?! by\b)(?! is\b)", "ideal step time"),
    (r"\b(?:host|hosts) bounds?\b", "host-bound"),
    (r"\bGPUs bound\b", "GPU-bound"),
    (r"\bat it longest\b", "the maximum over the GPUs"),
    (r"\blive activations?\b", "in-flight micro-batches, activation memory"),
    (r"\btheir size\b", "activation memory"),
    (r"\bno GPU can compute beside\b", "in serialized phases"),
    (r"% more time than\b", "times as long as"),
    (r"\b[Mm]ost gains\b", "benefits most"),
    (r"\bfirst by name\b", "ties: alphabetical"),
    (r"\b(?:the|an|this|that|its|best|whole|named|found) orders?\b(?! (?:of|is|on|in which|that they|they)\b)", "schedule"),
    (r"\border (?:auto|file)\b|\borders of (?:its|their) own\b", "schedule"),
    (r"\b(?:unknown|known|which|same|these) words?\b", "option"),
]

# (file, text): where a find is right. Every entry has to be needed.
ALLOWED = [
]

COMMENT_OR_LITERAL = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\((.*?)\)\1"|"((?:[^"\\\n]|\\.)*)"|\'(?:[^\'\\\n]|\\.)\'', re.S)


def literals(source):
    """(line, text): literals that follow one another are one."""
    texts, end = [], None
    for match in COMMENT_OR_LITERAL.finditer(source):
        text = match.group(3) if match.group(3) is not None else match.group(2)
        if text is None:
            continue
        line = source.count("\n", 0, match.start()) + 1
        before = source[source.rfind("\n", 0, match.start()) + 1:match.start()]
        if before.lstrip().startswith("#include"):
            continue
        if texts and end is not None and source[end:match.start()].strip() == "":
            texts[-1] = (texts[-1][0], texts[-1][1] + text)
        else:
            texts.append((line, text))
        end = match.end()
    return texts


def prose(text):
    """(line, text) of Markdown: paragraphs and tables, without code."""
    parts, fenced = [], False
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith("```"):
            fenced = not fenced
        elif not fenced and not line.startswith("    "):
            parts.append((number, re.sub(r"`[^`]*`|\]\([^)]*\)", "", line)))
    return parts


def texts_of(root):
    for folder in ("sim", "runtime", "calibrate", "python"):
        for path in sorted(glob.glob(os.path.join(root, folder, "**", "*.[ch]pp"), recursive=True)):
            with open(path, encoding="utf-8") as file:
                yield os.path.relpath(path, root), literals(file.read())
    for path in [os.path.join(root, "README.md"), *sorted(glob.glob(os.path.join(root, "docs", "*.md")))]:
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                yield os.path.relpath(path, root), prose(file.read())


def finds(root, allowed):
    """Lines of a report; then the entries of `allowed` that nothing needed."""
    report, needed = [], set()
    for path, texts in texts_of(root):
        for line, text in texts:
            # A key of JSON, a name of a setting: no sentence.
            if re.fullmatch(r"[\w.\-]+", text):
                continue
            for pattern, instead in FORBIDDEN:
                for match in re.finditer(pattern, text):
                    entry = next((e for e in allowed if e[0] == path and e[1] in text), None)
                    if entry:
                        needed.add(entry)
                    else:
                        report.append(f"{path}:{line}: '{match.group(0)}' in '{text}', expected: {instead}")
    return report, [entry for entry in allowed if entry not in needed]


def self_test():
    planted = {
        "sim/io/a.cpp": '// a card in a comment\nthrow Error("the card has " \n  "no memory", "card");\nf("step (ms)");\n',
        "runtime/b.cpp": 'say("a step that the host bounds");\n',
        "README.md": "The bound of a schedule.\n\n    the card in code\n\n`card` is a key; bound by the host.\n",
        "docs/c.md": "accumulation in rounds\n",
    }
    with tempfile.TemporaryDirectory() as root:
        for path, text in planted.items():
            os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
            with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                file.write(text)
        report, unused = finds(root, [("docs/c.md", "in rounds"), ("docs/c.md", "nowhere")])
    places = sorted(line.split(": '")[0] for line in report)
    assert places == ["README.md:1", "runtime/b.cpp:1", "sim/io/a.cpp:2"], report
    assert unused == [("docs/c.md", "nowhere")], unused


def main():
    self_test()
    if sys.argv[1:] == ["--self-test"]:
        return 0
    report, unused = finds(sys.argv[1] if len(sys.argv) > 1 else ROOT, ALLOWED)
    for line in report:
        print(line)
    for path, text in unused:
        print(f"tests/language.py: ALLOWED ({path}, '{text}'): found nothing, expected a find that it allows")
    return 1 if report or unused else 0


if __name__ == "__main__":
    sys.exit(main())
