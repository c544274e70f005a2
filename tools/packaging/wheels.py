"""The wheels: one for each Python, with the library that travels (cmake/portable/).

Owns: the environments that they are made in, their names. Never: compiles the library again. One thread.
"""
import os
import shutil
import subprocess

import machine
import sources

PLATFORM = "manylinux_2_28_x86_64"
PORTABLE = machine.RELEASE / "portable"


def need_machine():
    """old_glibc.c knows the versions of one architecture."""
    if os.uname().machine != "x86_64":
        raise machine.Failure(f"this machine is {os.uname().machine}, and wheels are made on x86_64; build from source here: "
                              "pip install .")


def portable():
    """The library, in build/release/portable."""
    machine.say("the library that travels: linking what the release build has")
    configure(f"-DGQA_EMBEDDED={sources.provide()}")
    build("gqa_portable")


def configure(*options):
    machine.run("configuring", "cmake", "--preset", "release", f"-DGQA_CUDA_INCLUDE={os.environ['GQA_CUDA_INCLUDE']}",
                *options)


def build(*targets):
    """With the progress of the build itself: from nothing it takes minutes."""
    log = machine.BUILD / "release.log"
    command = [machine.ROOT / "tools/progress", log, "cmake", "--build", "--preset", "release", "--target", *targets]
    if subprocess.run(list(map(str, command)), cwd=machine.ROOT, check=False).returncode:
        raise machine.Failure(f"the build of {' '.join(targets)} failed:\n{log.read_text()[-4000:]}")


def tag_of(python):
    """"cp311", of a Python that has what a wheel is made with."""
    question = ("import sys, sysconfig, os; print(f'cp{sys.version_info[0]}{sys.version_info[1]}'); "
                "print(os.path.exists(os.path.join(sysconfig.get_path('include'), 'Python.h')))")
    if not shutil.which(python):
        raise machine.Failure(f"--python {python}: there is no such program; give a Python of 3.9 or newer")
    try:
        tag, headers = machine.told(python, "-c", question).split()
    except (machine.Failure, OSError) as failure:
        raise machine.Failure(f"--python {python}: does not run, expected a Python of 3.9 or newer: {failure}") from None
    if headers != "True":
        raise machine.Failure(f"--python {python}: has no Python.h, which extensions are compiled with; install its "
                              "headers (on Debian the package python3-dev)")
    return tag


def make(python):
    """The path of the wheel for this Python."""
    tag = tag_of(python)
    tools = machine.venv(f"wheel-{tag}", python, "scikit-build-core>=0.11", "pybind11>=2.13,<4", "wheel")
    made = machine.WORK / f"made-{tag}"
    shutil.rmtree(made, ignore_errors=True)
    machine.say(f"the wheel for {tag}")
    machine.run(f"the wheel for {tag}", tools, "-m", "pip", "--disable-pip-version-check", "wheel", "--no-deps",
                "--no-build-isolation", "--wheel-dir", made,
                f"--config-settings=build-dir={machine.WORK / f'extension-{tag}'}",
                f"--config-settings=cmake.define.GQA_BUILT={PORTABLE}", machine.ROOT)
    [wheel] = made.glob("*.whl")
    machine.told(tools, "-m", "wheel", "tags", "--remove", "--platform-tag", PLATFORM, wheel)
    [wheel] = made.glob("*.whl")
    return shutil.move(str(wheel), machine.PACKAGES)
