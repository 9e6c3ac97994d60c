"""Runs the same work through Pushsweep and through other programs, and prints one table."""

import argparse
import signal
import subprocess
import sys
import venv as virtual

import feeds
import kills
import machine
import marks
import sends
import table
from ground import HERE, ROOT, Ground, say
from work import TROUBLE, Failure, Row, measure

WORKS = (feeds.Feed, marks.Mark, marks.Delete, marks.Writers, sends.HTTP2, sends.Binary,
         feeds.Filter, feeds.Log, kills.Kill)


def arguments():
    """The words of the command line."""
    parser = argparse.ArgumentParser(
        prog="scripts/bench peers", description=__doc__, allow_abbrev=False)
    parser.add_argument("names", nargs="*", metavar="NAME", help="works to run; all without a name")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full size")
    parser.add_argument("--runs", type=int, default=3, help="pairs for each peer")
    parser.add_argument("--format", choices=table.FORMATS, default="text")
    parser.add_argument("--only", action="append", default=[], metavar="PEER", help="only this peer")
    parser.add_argument("--seed", type=int, default=None, help="moments of the kills; a new one without it")
    parser.add_argument("--list", action="store_true", help="print the works and their peers, then end")
    parser.add_argument("--needs", action="store_true", help=argparse.SUPPRESS)
    words = parser.parse_args()
    known = [work.name for work in WORKS]
    for name in words.names:
        if name not in known:
            parser.error(f"unknown work {name}; known: {', '.join(known)}")
    peers = sorted({peer.name for work in WORKS for peer in work.peers})
    for name in words.only:
        if name not in peers:
            parser.error(f"unknown peer {name}; known: {', '.join(peers)}")
    if not 0 < words.scale <= 10 or words.runs < 1:
        parser.error("--scale is above 0 and at most 10, --runs at least 1")
    return words


def install(folder):
    """Puts the packages of PyPI into a virtual environment, each by itself."""
    wanted = [line.split("#")[0].strip() for line in (HERE / "requirements.txt").read_text().splitlines()]
    wanted = [line for line in wanted if line]
    note = folder / "installed"
    if note.exists() and note.read_text().split("\n") == wanted:
        return
    say(f"installing {', '.join(wanted)} into {folder.name}")
    try:
        virtual.create(folder, with_pip=True)
    except (OSError, subprocess.CalledProcessError) as error:
        say(f"no virtual environment can be made, so the packages of PyPI are left out: {error}")
        return
    done = []
    for package in wanted:
        words = [folder / "bin/python", "-m", "pip", "install", "--quiet", "--retries", "1",
                 "--disable-pip-version-check", package]
        if subprocess.run(words, stdout=sys.stderr).returncode == 0:
            done.append(package)
        else:
            say(f"{package} could not be installed")
    note.write_text("\n".join(done))


def run(chosen, words, ground):
    """The rows of the chosen works. A work that fails leaves its own rows out."""
    rows = []
    for kind in chosen:
        peers = [peer for peer in kind.peers if not words.only or peer.name in words.only]
        missing = {peer: ground.missing(peer.needs) for peer in peers}
        work = None
        for peer in peers:
            try:
                if missing[peer]:
                    raise Failure(missing[peer])
                if work is None:
                    say(f"{kind.name}: {kind.what}")
                    work = kind(ground, words.scale)
                    if words.seed is not None:
                        work.seed = words.seed
                rows.append(measure(work, peer, words.runs, say))
            except TROUBLE as trouble:
                say(f"{kind.name}, {peer.name}: {trouble}")
                # Any other text may have a path of this machine.
                cause = str(trouble) if isinstance(trouble, Failure) else "its run could not be measured"
                rows.append(Row(kind.name, peer, absent=f"left out: {cause}" if missing[peer]
                                else f"failed: {cause}"))
        try:
            if work is not None:
                work.close()
        except TROUBLE as trouble:
            say(f"{kind.name}: {trouble}")
    return rows


def main():
    words = arguments()
    # So that what was started ends, and the folder with its keys goes.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    chosen = [work for work in WORKS if not words.names or work.name in words.names]
    if words.list:
        for work in chosen:
            print(f"{work.name}: {work.what}; {', '.join(peer.name for peer in work.peers)}")
        return 0
    if words.needs:
        print("mariadb" if any(work.needs_server for work in chosen) else "")
        return 0
    folder = ROOT / ".build-peers"
    install(folder)
    try:
        with Ground(folder) as ground:
            rows = run(chosen, words, ground)
            table.FORMATS[words.format](machine.header(ground, words.scale, words.runs, [work.name for work in chosen]), rows)
    except Failure as failure:
        say(str(failure))
        return 1
    return 1 if any(row.ours_fault for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
