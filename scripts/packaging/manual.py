#!/usr/bin/env python3
"""Writes the man pages of a program from what the program says about itself.

    PROGRAM --experimental-dump-help | manual.py VERSION DATE FOLDER [EXIT-CODES]

One page for the program and one for each of its commands, in mdoc(7). The texts are those of --help, so
there is no second copy to keep up. DATE is like 2026-11-23. EXIT-CODES is a file with the text of
`pushsweep help exit-codes`, for a program whose help does not have it; the pages of commands refer to it.
"""

import datetime
import json
import pathlib
import re
import sys
import textwrap


def text(words):
    """A text of --help as mdoc takes it: no macro, no escape, and hyphens of options that can be copied."""
    words = words.replace("\\", "\\e")
    words = re.sub(r"(?<![\w-])-(?=\S)|(?<=\w)-(?=\w)|--", lambda m: "\\-" * len(m.group()), words)
    return re.sub(r"^(?=[.'])", "\\\\&", words)


def argument(word):
    """A word after a macro. One that looks like a macro or is punctuation is taken for that otherwise."""
    word = text(word)
    if re.fullmatch(r"[A-Z][a-z]|[.,:;()\[\]?!|]+", word):
        word = "\\&" + word
    return '"' + word.replace('"', "\\(dq") + '"' if re.search(r'[\s"]', word) else word


def sentences(paragraph):
    """The lines of a paragraph: each sentence begins one, as mdoc asks, and none is long."""
    for sentence in re.split(r"(?<=[.!?])\s+(?=\S)", " ".join(paragraph.split())):
        for line in textwrap.wrap(sentence, 76, break_long_words=False, break_on_hyphens=False):
            yield text(line)


def flags(option):
    """The spellings of an option, each with its dashes."""
    return [("-" if name["kind"] == "short" else "--") + name["name"] for name in option["names"]]


def macro(flag):
    """`.Fl` for an option; it prints the first dash itself."""
    return "Fl " + argument(flag[1:])


def values(option):
    """What the help says after the text of an option about its values."""
    facts = []
    listed = option.get("allValues")
    if listed and "|".join(listed) != option["valueName"]:
        facts.append("values: " + ", ".join(listed))
    if option.get("defaultValue"):
        facts.append("default: " + option["defaultValue"])
    return f" ({'; '.join(facts)})" if facts else ""


def takes_value(option):
    return option["kind"] == "option"


def usage(command):
    """The lines of SYNOPSIS after the name."""
    for option in shown(command):
        if option["kind"] == "positional":
            word = "Ar " + argument(option["valueName"])
        else:
            word = macro(flags(option)[0])
            if takes_value(option):
                word += " Ar " + argument(option["valueName"])
        dots = " ..." if option["isRepeating"] else ""
        yield f".Op {word}{dots}" if option["isOptional"] else f".{word}{dots}"
    if command.get("subcommands"):
        yield ".Ar command"
        yield ".Op Ar argument ..."


def shown(command):
    """The arguments to show: positional ones last, and not those that every command has."""
    common = {"--version", "--help"}
    listed = [
        option for option in command.get("arguments", [])
        if option["shouldDisplay"]
        and (option["kind"] == "positional" or not common & set(flags(option)))
    ]
    return sorted(listed, key=lambda option: option["kind"] == "positional")


def options(command):
    """The list of arguments, under the headings of the help."""
    listed = shown(command)
    headings = list(dict.fromkeys(option.get("sectionTitle") for option in listed))
    for heading in sorted(headings, key=lambda heading: heading is not None):
        if heading:
            yield f".Ss {heading}"
        yield ".Bl -tag -width Ds"
        for option in listed:
            if option.get("sectionTitle") != heading:
                continue
            if option["kind"] == "positional":
                yield f".It Ar {argument(option['valueName'])}"
            else:
                value = f" Ar {argument(option['valueName'])}" if takes_value(option) else ""
                yield ".It " + " , ".join(macro(flag) for flag in flags(option)) + value
            yield from sentences(option.get("abstract", "") + values(option))
        yield ".El"


def sections(words):
    """The text of the help before its first heading, and its sections by their headings."""
    before, *parts = re.split(r"^(EXIT STATUS|EXAMPLE)\n", words, flags=re.MULTILINE)
    return before, dict(zip(parts[::2], parts[1::2]))


def endings(names, parts, exits):
    """The sections about exit codes, and the example."""
    own = parts.get("EXIT STATUS")
    if own or exits:
        yield ".Sh EXIT STATUS"
        if own or len(names) == 1:
            yield from body(own or sections(exits)[1]["EXIT STATUS"])
        else:
            yield "The exit codes of all commands are in"
            yield f".Xr {names[0]} 1 ."
    if "EXAMPLE" in parts:
        yield ".Sh EXAMPLES"
        yield ".Dl " + text(parts["EXAMPLE"].strip())


def body(paragraphs):
    """Paragraphs; indented lines of a number and a text become a list, others stay as they are."""
    is_first = True
    for paragraph in re.split(r"\n\s*\n", paragraphs.strip("\n")):
        if not paragraph.strip():
            continue
        lines = paragraph.split("\n")
        if all(re.match(r"  \d+ ", line) for line in lines):
            yield ".Bl -tag -width Ds -compact"
            for line in lines:
                number, meaning = line.split(maxsplit=1)
                yield f".It {number}"
                yield from sentences(meaning)
            yield ".El"
        elif all(line.startswith("  ") for line in lines):
            yield ".Bd -literal -offset indent"
            yield from (text(line[2:]) for line in lines)
            yield ".Ed"
        else:
            if not is_first:
                yield ".Pp"
            yield from sentences(paragraph)
        is_first = False


def page(names, command, day, version, exits):
    """A whole page. `names` are the words of the command line, `exits` the text about exit codes."""
    name = "-".join(names)
    yield f'.\\" Made from the help of {names[0]} {version} by scripts/packaging/manual.py.'
    yield f".Dd {day:%B} {day.day}, {day.year}"
    yield f".Dt {name.upper()} 1"
    yield ".Os"
    yield ".Sh NAME"
    yield f".Nm {name}"
    yield ".Nd " + text(command["abstract"][0].lower() + command["abstract"][1:]).rstrip(".")
    yield ".Sh SYNOPSIS"
    yield f".Nm {' '.join(names)}"
    yield from usage(command)
    yield ".Sh DESCRIPTION"
    yield from sentences(command["abstract"])
    before, parts = sections(command.get("discussion", ""))
    if before.strip():
        yield ".Pp"
        yield from body(before)
    if shown(command):
        yield ".Pp"
        yield "The arguments are:"
        yield from options(command)
    below = commands(command)
    if below:
        yield ".Pp"
        yield "The commands are:"
        yield ".Bl -tag -width Ds"
        for other in below:
            yield f".It Cm {argument(other['commandName'])}"
            yield from sentences(other.get("abstract", ""))
        yield ".El"
        yield ".Pp"
        yield "Each has a page of its own, and"
        yield ".Fl \\-help ."
    files = names == ["pushsweep"]
    if files:
        yield ".Sh FILES"
        yield ".Bl -tag -width Ds"
        yield ".It Pa /etc/pushsweep/pushsweep.yaml"
        yield "The settings, as"
        yield ".Xr pushsweep.yaml 5"
        yield "lists them."
        yield ".It Pa /var/lib/pushsweep"
        yield "The state folder of the settings: journal, records of runs, locks."
        yield ".El"
    yield from endings(names, parts, exits)
    related = ["-".join(names + [other["commandName"]]) for other in below]
    if len(names) > 1:
        related.append("-".join(names[:-1]))
    pages = [f"{other} 1" for other in sorted(related)] + ["pushsweep.yaml 5"] * files
    if pages:
        yield ".Sh SEE ALSO"
        for number, other in enumerate(pages):
            yield f".Xr {other}" + (" ," if number + 1 < len(pages) else "")


def commands(command):
    """The commands of a command, without the one that prints help."""
    return [
        other for other in command.get("subcommands", [])
        if other["commandName"] != "help" and other["shouldDisplay"]
    ]


def write(names, command, day, version, folder, exits):
    lines = "\n".join(page(names, command, day, version, exits)) + "\n"
    (folder / ("-".join(names) + ".1")).write_text(lines)
    for other in commands(command):
        write(names + [other["commandName"]], other, day, version, folder, exits)


if __name__ == "__main__":
    if len(sys.argv) not in (4, 5):
        sys.exit("usage: manual.py VERSION DATE FOLDER [EXIT-CODES]")
    described = json.load(sys.stdin)["command"]
    write(
        [described["commandName"]], described, datetime.date.fromisoformat(sys.argv[2]),
        sys.argv[1], pathlib.Path(sys.argv[3]),
        pathlib.Path(sys.argv[4]).read_text() if len(sys.argv) == 5 else "")
