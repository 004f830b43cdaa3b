"""Packages of plug-ins, built and installed for a test."""

import subprocess
import sys

# In one process, where pip would start two for each package. `build_wheel` changes `sys.argv`.
BUILD = """
import os, sys
from setuptools.build_meta import build_wheel

wheels, *packages = sys.argv[1:]
for package in packages:
    os.chdir(package)
    build_wheel(wheels)
"""


def install(site, *packages):
    """Installs packages into a folder, with the setuptools that is here."""
    wheels = site.with_name("wheels")
    build = [sys.executable, "-c", BUILD, wheels, *packages]
    subprocess.run(build, check=True, capture_output=True)
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--target", site, *wheels.glob("*.whl")], check=True, capture_output=True)
