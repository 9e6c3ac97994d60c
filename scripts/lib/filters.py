#!/usr/bin/env python3
"""Fails where a part of a filter fits no test: a renamed test would leave the gate unseen.

    ... --list-tests | filters.py EXPRESSION...

Each alternative of an expression, in parentheses or not, is tried in its place with the others of its group left out.
"""

import re
import sys


def parts(text):
    """The alternatives of an expression outside of its groups, each with the places of its outermost groups."""
    depth, begin, opened, groups = 0, 0, 0, []
    # An escaped sign and a set of signs are no parentheses.
    for sign in re.finditer(r"\\.|\[\^?\]?[^]]*\]|[()|]", text):
        if sign[0] == "(":
            opened = opened if depth else sign.end()
            depth += 1
        elif sign[0] == ")":
            depth -= 1
            if depth == 0:
                groups.append((opened - begin, sign.start() - begin))
        elif sign[0] == "|" and depth == 0:
            yield text[begin : sign.start()], groups
            begin, groups = sign.end(), []
    yield text[begin:], groups


def alternatives(text):
    """The expression once for each alternative in it."""
    for part, groups in parts(text):
        if not groups:
            yield part
        for begin, end in groups:
            for inner in alternatives(part[begin:end]):
                yield part[:begin] + inner + part[end:]


def main():
    tests = sys.stdin.read().splitlines()
    if not tests:
        sys.exit("filters: no test was listed, so no filter can be compared; look why the tests cannot be listed")
    unfit = [
        each
        for expression in sys.argv[1:]
        for each in alternatives(expression)
        if not any(re.search(each, test) for test in tests)
    ]
    for each in unfit:
        print(f"filters: no test fits this part of a filter: {each}; correct its name, or take it out", file=sys.stderr)
    sys.exit(1 if unfit else 0)


main()
