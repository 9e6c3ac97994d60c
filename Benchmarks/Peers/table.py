"""The table, as text for a terminal, as Markdown for docs/internals/peers.md, and as JSON."""

import json
import textwrap


def shown(value):
    """A number with the digits that it is worth."""
    if value is None:
        return "–"
    if value == int(value) and value >= 10 or value == 0:
        return f"{int(value):,}"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2g}"


def facts(theirs, ours):
    """What was counted: of the peer, then of Pushsweep."""
    both = [f"{name} {shown(theirs[name])}, ours {shown(ours.get(name))}" for name in theirs]
    return "; ".join(both + [f"our {name} {shown(ours[name])}" for name in ours if name not in theirs])


def outcome(row):
    """What came out, with what was done wrongly."""
    parts = [facts(row.theirs_facts, row.ours_facts)]
    if row.fault:
        parts.append(f"WRONG: {row.fault}")
    if row.ours_fault:
        parts.append(f"OURS WRONG: {row.ours_fault}")
    if row.peer.part < 1:
        parts.append(f"it was given {row.peer.part:.0%} of the data")
    parts.append(row.peer.note)
    return "; ".join(part for part in parts if part)


def text(header, rows, say=print):
    """Prints one peer on a line, and what belongs to it below."""
    for name, value in header.items():
        say(textwrap.fill(f"{name}: {value}", 100, subsequent_indent="  "))
    say(f"\n{'work':<9}{'peer':<24}{'its s':>9}{'ours s':>9}{'ratio':>8}")
    for row in rows:
        if row.absent:
            say(f"{row.work:<9}{row.peer.name:<24}{row.absent}")
            continue
        say(f"{row.work:<9}{row.peer.name:<24}{shown(row.seconds):>9}{shown(row.ours):>9}"
            f"{shown(row.ratio):>8}")
        for title, part in (("", outcome(row)), ("it does not: ", row.peer.lacks),
                            ("ours does not: ", row.peer.has)):
            if part:
                say(textwrap.fill(title + part, 100, initial_indent="    ", subsequent_indent="      "))


def markdown(header, rows, say=print):
    """Prints the table for the page, with machine and versions above it."""
    for name, value in header.items():
        say(f"- {name}: {value}")
    say("\n| work | peer | its seconds | ours | ratio | what came out | it does not | ours does not |")
    say("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for row in rows:
        cells = [row.work, row.peer.name]
        if row.absent:
            cells += ["", "", "", row.absent, "", ""]
        else:
            cells += [shown(row.seconds), shown(row.ours), shown(row.ratio), outcome(row),
                      row.peer.lacks, row.peer.has]
        say("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")


def as_json(header, rows, say=print):
    """Prints one object."""
    say(json.dumps({"about": header, "rows": [
        {"work": row.work, "peer": row.peer.name, "seconds": row.seconds, "ours": row.ours,
         "ratio": row.ratio, "facts": row.theirs_facts, "oursFacts": row.ours_facts,
         "fault": row.fault, "oursFault": row.ours_fault, "absent": row.absent,
         "part": row.peer.part, "lacks": row.peer.lacks, "has": row.peer.has, "note": row.peer.note}
        for row in rows]}))


FORMATS = {"text": text, "markdown": markdown, "json": as_json}
