"""The files of the project: what git tracks and what it would add."""

import subprocess
from pathlib import Path

CPP_SUFFIXES = (".hpp", ".cpp")


def project_files(root: Path) -> list[str]:
    """Paths relative to `root`, sorted, of files that exist."""
    listing = subprocess.run(
        ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        check=True, capture_output=True, text=True).stdout
    return sorted({path for path in listing.split("\0") if path and (root / path).is_file()})


def cpp_files(root: Path) -> list[str]:
    return [path for path in project_files(root) if path.endswith(CPP_SUFFIXES)]
