#!/usr/bin/env python3
"""Validates the JSON documents that the tests kept against their forms in docs/json.

    documents.py FORMS FOLDER

The files of FOLDER have one object a line: `words`, the command line, and `line`, the document. A form
of docs/json lets readers meet fields that it does not name; here such a field is a fault, because a
field that the program prints must be in its form. Ends with 1 after a fault, and names it.
"""

import json
import pathlib
import sys

import jsonschema

# The documents of these commands have the form of another.
SAME = {
    "replay": ["sweep"],
    "import": ["sweep"],
    "holds-release": ["sweep"],
    "schema-print": ["schema"],
    "schema-apply": ["schema"],
    "demo": ["sweep", "explain", "undo", "send"],
}
GROUPS = {"holds", "quarantine", "schema"}
MOST_FAULTS = 20


def names(words):
    """The forms that a document of this command line may have."""
    name = words[0]
    if name in GROUPS:
        name = "-".join(words[:2])
    for option in ("grants", "list"):
        if f"--{option}" in words and name in ("check", "undo"):
            name += f"-{option}"
    return SAME.get(name, [name])


def strict(form):
    """The form with every object closed that names its fields."""
    if isinstance(form, list):
        return [strict(part) for part in form]
    if not isinstance(form, dict):
        return form
    closed = {key: strict(part) for key, part in form.items()}
    if isinstance(form.get("properties"), dict):
        closed.setdefault("additionalProperties", False)
    return closed


def load(folder):
    """A validator for each form, by name."""
    validators = {}
    for path in sorted(folder.glob("*.schema.json")):
        form = json.loads(path.read_text())
        jsonschema.Draft202012Validator.check_schema(form)
        validators[path.name.removesuffix(".schema.json")] = jsonschema.Draft202012Validator(
            strict(form), format_checker=jsonschema.FormatChecker())
    return validators


def fault(validators, words, document):
    """What is wrong with a document; None for one that has its form."""
    known = [name for name in names(words) if name in validators]
    if not known:
        return f"docs/json has no form {names(words)[0]}.schema.json"
    faults = []
    for name in known:
        error = next(validators[name].iter_errors(document), None)
        if error is None:
            return None
        faults.append(f"{name}: {error.json_path}: {error.message[:300]}")
    return "; ".join(faults)


def main(forms, folder):
    validators = load(pathlib.Path(forms))
    if not validators:
        sys.exit(f"documents: no *.schema.json in {forms}")
    seen, count, faults = set(), 0, {}
    for path in sorted(pathlib.Path(folder).glob("*.jsonl")):
        for kept in path.read_text().splitlines():
            entry = json.loads(kept)
            count += 1
            if (entry["words"][0], entry["line"]) in seen:
                continue
            seen.add((entry["words"][0], entry["line"]))
            try:
                said = fault(validators, entry["words"], json.loads(entry["line"]))
            except ValueError as error:
                said = f"not JSON: {error}"
            if said:
                faults.setdefault(said, " ".join(entry["words"]))
    for said, command in list(faults.items())[:MOST_FAULTS]:
        print(f"documents: pushsweep {command}\n  {said}", file=sys.stderr)
    print(f"documents: {count} printed, {len(faults)} kinds of faults", file=sys.stderr)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: documents.py FORMS FOLDER")
    main(*sys.argv[1:])
