#!/usr/bin/env python3
"""Compiles cuda/*.cu to ptx/ with NVRTC, or with --check says whether ptx/ is what NVRTC emits.

Either way ptxas assembles every file for its architecture. A kernel that spills registers, or keeps an array in local
memory, is an error; ptx/resources.txt says what each kernel uses.

Needs Python 3.9 and pip; no GPU, driver or CUDA toolkit. The compilers are installed from PyPI, at the versions and
hashes of compilers.txt, into the workspace's target/ directory, once. They are NVIDIA's and are never committed; the
PTX is ours and is.
"""

import argparse
import ctypes
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ARCHITECTURES = (80, 90, 100)
PIP_DEADLINE_SECONDS = 300
PTXAS_DEADLINE_SECONDS = 60
NVRTC_SUCCESS = 0


class BuildError(Exception):
    """A failure with a message that says what to do."""


def target_directory():
    """The directory for build products: cargo's."""
    if "CARGO_TARGET_DIR" in os.environ:
        return Path(os.environ["CARGO_TARGET_DIR"]).resolve()
    roots = [folder for folder in (HERE, *HERE.parents) if (folder / "Cargo.lock").exists()]
    return (roots[0] if roots else HERE) / "target"


def pip_install(packages, requirements):
    """Installs the pinned compilers into the folder `packages`."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--upgrade"]
    command += ["--root-user-action=ignore", "--disable-pip-version-check", "--only-binary=:all:"]
    command += ["--target", str(packages), "--requirement", str(requirements)]
    if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True, check=False).returncode != 0:
        raise BuildError(f"{sys.executable} has no pip; install it (Debian: apt-get install python3-pip) and run again")
    try:
        failed = subprocess.run(command, check=False, timeout=PIP_DEADLINE_SECONDS).returncode != 0
    except subprocess.TimeoutExpired:
        raise BuildError(f"pip did not finish in {PIP_DEADLINE_SECONDS} s; check the network and run again") from None
    if failed:
        raise BuildError(f"pip could not install {requirements.name}; its message is above")


def compilers():
    """The folder of the compilers, installed first if the cached ones are absent or of other pins."""
    requirements = HERE / "compilers.txt"
    packages = target_directory() / "cuda-compilers"
    stamp = packages / "installed.txt"
    if not stamp.exists() or stamp.read_text() != requirements.read_text():
        pip_install(packages, requirements)
        stamp.write_text(requirements.read_text())
    return packages / "nvidia" / "cu13"


def load(folder, pattern):
    """Loads the one shared library of `folder` that matches `pattern`."""
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise BuildError(f"{folder} does not hold one {pattern}; delete {folder} and run again")
    return ctypes.CDLL(str(found[0]))


class Nvrtc:
    """The calls of libnvrtc that turn one source into PTX."""

    def __init__(self, folder):
        # libnvrtc opens its builtins by bare name: already loaded, they need no LD_LIBRARY_PATH.
        self.builtins = load(folder, "libnvrtc-builtins.so.*")
        self.library = load(folder, "libnvrtc.so.*")
        self.library.nvrtcGetErrorString.restype = ctypes.c_char_p

    def call(self, name, *arguments):
        """Calls one function and raises on any status but success."""
        status = getattr(self.library, name)(*arguments)
        if status != NVRTC_SUCCESS:
            raise BuildError(f"{name}: {self.library.nvrtcGetErrorString(status).decode()}")

    def text(self, program, kind):
        """What nvrtcGet<kind> returns of a program: its PTX or its ProgramLog."""
        size = ctypes.c_size_t()
        self.call(f"nvrtcGet{kind}Size", program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        self.call(f"nvrtcGet{kind}", program, buffer)
        return buffer.value.decode()

    def compile(self, source, architecture):
        """The PTX of the file `source` for one virtual architecture."""
        options = [f"--gpu-architecture=compute_{architecture}", "--std=c++17", f"--include-path={source.parent}"]
        encoded = (ctypes.c_char_p * len(options))(*[option.encode() for option in options])
        program = ctypes.c_void_p()
        text, name = source.read_bytes(), source.name.encode()
        self.call("nvrtcCreateProgram", ctypes.byref(program), text, name, 0, None, None)
        try:
            self.call("nvrtcCompileProgram", program, len(options), encoded)
            return self.text(program, "PTX")
        except BuildError as error:
            log = self.text(program, "ProgramLog").strip()
            raise BuildError(f"{source.name} for compute_{architecture}: {error}\n{log}") from None
        finally:
            self.library.nvrtcDestroyProgram(ctypes.byref(program))


USAGE = re.compile(
    r"Compiling entry function '(?P<entry>\w+)' for 'sm_(?P<architecture>\d+)'"
    r".*?(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads"
    r".*?Used (?P<registers>\d+) registers(?:[^\n]*?(?P<shared>\d+) bytes smem)?",
    re.DOTALL,
)


def assemble(ptxas, name, text):
    """What ptxas says of each entry of one PTX file."""
    architecture = name.split(".")[1]
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / name
        source.write_text(text)
        command = [str(ptxas), "--verbose", f"--gpu-name={architecture}", str(source), f"--output-file={folder}/cubin"]
        try:
            result = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=PTXAS_DEADLINE_SECONDS
            )
        except subprocess.TimeoutExpired:
            raise BuildError(f"ptxas did not finish {name} in {PTXAS_DEADLINE_SECONDS} s") from None
    if result.returncode != 0:
        raise BuildError(f"ptxas refuses {name}:\n{result.stdout}{result.stderr}")
    usages = [usage.groupdict() for usage in USAGE.finditer(result.stdout + result.stderr)]
    if len(usages) != text.count(".visible .entry"):
        raise BuildError(f"ptxas does not report on every entry of {name}:\n{result.stdout}{result.stderr}")
    return usages


def refuse_local_memory(usages):
    """Raises if an entry keeps anything in local memory, which is slow."""
    for usage in usages:
        if any(int(usage[kind]) for kind in ("stack", "stores", "loads")):
            raise BuildError(
                f"{usage['entry']} for sm_{usage['architecture']} has a stack frame of {usage['stack']} bytes and spills"
                f" {usage['stores']}; make its arrays' indices constants, or use fewer registers"
            )


def resources(usages):
    """The text of resources.txt."""
    lines = ["# Registers a thread for each architecture, and static shared memory a block, in bytes. By ptxas."]
    lines.append("".join([f"{'entry':<20}", *(f"{f'sm_{each}':>8}" for each in ARCHITECTURES), f"{'shared':>8}"]))
    for entry in sorted({usage["entry"] for usage in usages}):
        of_entry = {int(usage["architecture"]): usage for usage in usages if usage["entry"] == entry}
        registers = [f"{of_entry[each]['registers']:>8}" for each in ARCHITECTURES]
        shared = max(int(usage["shared"] or 0) for usage in of_entry.values())
        lines.append("".join([f"{entry:<20}", *registers, f"{shared:>8}"]))
    return "\n".join(lines) + "\n"


def compile_all():
    """The name and text of every file of ptx/."""
    folder = compilers()
    nvrtc = Nvrtc(folder / "lib")
    emitted = {
        f"{source.stem}.sm_{architecture}.ptx": nvrtc.compile(source, architecture)
        for source in sorted((HERE / "cuda").glob("*.cu"))
        for architecture in ARCHITECTURES
    }
    usages = [usage for name, text in emitted.items() for usage in assemble(folder / "bin" / "ptxas", name, text)]
    refuse_local_memory(usages)
    return {**emitted, "resources.txt": resources(usages)}


def differences(emitted):
    """One line for every file of ptx/ that is not what was emitted."""
    committed = {path.name: path.read_text() for path in (HERE / "ptx").iterdir()}
    for name in sorted(emitted.keys() | committed.keys()):
        if name not in committed:
            yield f"ptx/{name} is missing"
        elif name not in emitted:
            yield f"ptx/{name} has no source"
        elif committed[name] != emitted[name]:
            yield f"ptx/{name} differs from what its source compiles to"


def check(emitted):
    """Fails unless ptx/ holds exactly what was emitted."""
    wrong = list(differences(emitted))
    if wrong:
        raise BuildError("\n".join([*wrong, "run kernels/build_ptx.py and commit the result"]))


def write(emitted):
    """Makes ptx/ hold exactly what was emitted."""
    folder = HERE / "ptx"
    folder.mkdir(exist_ok=True)
    for path in folder.iterdir():
        if path.name not in emitted:
            path.unlink()
    for name, text in emitted.items():
        (folder / name).write_text(text)


def main():
    """Reads the command line, compiles, then writes or checks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail if ptx/ is not up to date")
    arguments = parser.parse_args()
    try:
        emitted = compile_all()
        (check if arguments.check else write)(emitted)
    except BuildError as error:
        sys.exit(f"build_ptx: {error}")
    print(f"build_ptx: {len(emitted)} files {'are up to date' if arguments.check else 'written'}")


if __name__ == "__main__":
    main()
