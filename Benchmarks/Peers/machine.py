"""What a figure depends on: the machine, the versions of all programs, and the date."""

import datetime
import os
import re
import subprocess


def first_line(*words):
    """The first line that a program prints, or nothing."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    lines = (done.stdout + done.stderr).strip().splitlines()
    return lines[0].strip() if lines else ""


def machine():
    """Processor, cores and memory in one line."""
    with open("/proc/cpuinfo") as file:
        model = re.search(r"model name\s*:\s*(.*)", file.read())
    with open("/proc/meminfo") as file:
        kibibytes = int(re.search(r"MemTotal:\s*(\d+)", file.read()).group(1))
    name = model.group(1) if model else os.uname().machine
    return f"{name}, {len(os.sched_getaffinity(0))} cores, {kibibytes / 1048576:.0f} GiB"


def debian(package):
    """The version of a Debian package; empty where it is not installed."""
    return first_line("dpkg-query", "--show", "--showformat=${Version}\n", package).partition(
        "no packages found")[0].strip()


def packages(python):
    """Names and versions of the packages of PyPI that the peers use."""
    program = ("import importlib.metadata as m; print(', '.join(sorted(f'{d.name} {d.version}' for d in "
               "m.distributions() if d.name.lower() in {'aioapns', 'apns3', 'django', 'httpx', 'h2', "
               "'django-push-notifications', 'duckdb', 'mysqlclient'})))")
    return first_line(python, "-c", program)


def measured(works):
    """The digest of the code of ours that each work measures."""
    done = subprocess.run(["scripts/lib/measured"], capture_output=True, text=True, check=True)
    known = dict(line.split() for line in done.stdout.splitlines())
    return ", ".join(f"`{work}` `{known[work]}`" for work in works)


def header(ground, scale, runs, works):
    """All of it, by name."""
    names = ("percona-toolkit", "php-cli", "jq", "miller", "nghttp2-client", "sqlite3", "grep")
    known = {name: debian(name) for name in names}
    return {
        "machine": machine(),
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
        "size": f"{scale:g} of the full size, median of {runs}",
        "code": measured(works),
        "Pushsweep": first_line(ground.program("pushsweep"), "--version").removeprefix("pushsweep "),
        "MariaDB": server_version(),
        "from Debian": ", ".join(f"{name} {version}" for name, version in known.items() if version),
        "from PyPI": f"{packages(ground.python)}; {first_line(ground.python, '--version')}",
    }


def server_version():
    """The version of mariadbd."""
    return first_line("sh", "-c", "PATH=$PATH:/usr/sbin mariadbd --no-defaults --version").partition("Ver ")[
        2].split(" for ")[0]
