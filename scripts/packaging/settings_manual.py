#!/usr/bin/env python3
"""Writes the man page of the settings, pushsweep.yaml(5), from the page that the table of settings makes.

    settings_manual.py docs/settings.md VERSION DATE

A test compares docs/settings.md with the table, so this page has each setting of the program and no other.
DATE is like 2026-11-23.
"""

import datetime
import pathlib
import re
import sys

from manual import sentences, text


def plain(words):
    """Markdown without its marks: code as it is, a link as its words."""
    words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", words)
    return words.replace("`", "")


def entry(lines):
    """A setting: its key, then what a value is, its sentence and its variable."""
    key, facts = re.fullmatch(r"- `([^`]+)`: (.*)", lines[0].strip()).groups()
    yield f".It Cm {text(key)}"
    for line in lines[1:]:
        variable = re.fullmatch(r"`(PUSHSWEEP_[A-Z_<>]+)`", line.strip())
        if not variable:
            yield from sentences(plain(line))
    facts = plain(facts).rstrip(".")
    if re.match(r"[a-z]+[ ,;]", facts):
        facts = facts[0].upper() + facts[1:]
    yield from sentences(facts + ".")
    if variable:
        yield f".Ev {text(variable.group(1))}"


def blocks(lines):
    """The paragraphs and items of a part of the page, each as its lines."""
    block = []
    for line in lines:
        if block and (not line.strip() or line.startswith("- ")):
            yield block
            block = []
        if line.strip():
            block.append(line)
    if block:
        yield block


def part(lines):
    """The body of a section: settings become a list with tags, other items a list with bullets."""
    listed = None
    for block in blocks(lines):
        kind = "tag" if re.match(r"- `[^`]+`: .*;", block[0]) else "bullet"
        kind = kind if block[0].startswith("- ") else None
        if kind != listed:
            if listed:
                yield ".El"
            if kind:
                yield ".Bl -tag -width Ds" if kind == "tag" else ".Bl -bullet"
            listed = kind
        if kind == "tag":
            yield from entry(block)
        else:
            yield ".It" if kind else ".Pp"
            words = " ".join(line.strip() for line in block)
            yield from sentences(plain(words.removeprefix("- ")))
    if listed:
        yield ".El"


def page(source, version, day):
    """The whole page, in mdoc(7)."""
    yield f'.\\" Made from docs/settings.md of pushsweep {version} by scripts/packaging/settings_manual.py.'
    yield f".Dd {day:%B} {day.day}, {day.year}"
    yield ".Dt PUSHSWEEP.YAML 5"
    yield ".Os"
    yield ".Sh NAME"
    yield ".Nm pushsweep.yaml"
    yield ".Nd settings of pushsweep"
    yield ".Sh DESCRIPTION"
    opening, *sections = re.split(r"(?m)^## ", source)
    yield from list(part(opening.split("\n")[1:]))[1:]
    for section in sections:
        title, *lines = section.split("\n")
        yield f".Ss {text(title)}"
        yield from part(lines)
    yield ".Sh FILES"
    yield ".Bl -tag -width Ds"
    yield ".It Pa /etc/pushsweep/pushsweep.yaml"
    yield "The settings, where neither"
    yield ".Fl \\-config"
    yield "nor"
    yield ".Ev PUSHSWEEP_CONFIG"
    yield "names another file."
    yield ".El"
    yield ".Sh SEE ALSO"
    yield ".Xr pushsweep 1 ,"
    yield ".Xr pushsweep-check 1"


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: settings_manual.py docs/settings.md VERSION DATE")
    print("\n".join(page(
        pathlib.Path(sys.argv[1]).read_text(), sys.argv[2], datetime.date.fromisoformat(sys.argv[3]))))
