"""How the programs here choose cases and say what came of them."""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from chaos_run import ChaosError

README = Path(__file__).resolve().parent / "README.md"


def choose(description, cases):
    """The arguments of a program with cases; ends the process when it only lists them, or knows one of them not."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    if arguments.list:
        print("\n".join(cases))
        sys.exit(0)
    for name in arguments.cases:
        if name not in cases:
            print(f"chaos: no case named {name!r}; --list names them", file=sys.stderr)
            sys.exit(2)
    arguments.cases = arguments.cases or list(cases)
    return arguments


def write_table(rows, table):
    """Replaces the rows between `<!-- TABLE -->` and `<!-- end of TABLE -->` in README.md."""
    begin, end = f"<!-- {table} -->", f"<!-- end of {table} -->"
    head, rest = README.read_text().split(begin)
    lines = ["", "| case | guarantee | observed |", "|---|---|---|"]
    lines += [f"| {name} | {guarantee} | {observed} |" for name, guarantee, observed in rows]
    README.write_text(head + begin + "\n".join(lines) + "\n" + end + rest.split(end)[1])


def run_as_test(name, body):
    """`body(folder)` says in words what held, or raises; the folder is kept when it does. @return exit code"""
    folder = Path(tempfile.mkdtemp(prefix=f"memopd-{name.replace(' ', '-')}-"))
    try:
        held = body(folder)
    except (ChaosError, OSError, RuntimeError) as error:
        print(f"{name}: BROKEN: {error}\nruns are kept in {folder}\n0 passed, 1 failed")
        return 1
    shutil.rmtree(folder, ignore_errors=True)
    print(f"{name}: {held}\n1 passed, 0 failed")
    return 0
