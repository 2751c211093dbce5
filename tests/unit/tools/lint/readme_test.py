"""The C++ of runtime/README.md is part of the examples, which are compiled and run as tests of their own."""

import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]


def blocks(text):
    return re.findall(r"^```cpp\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def normal(text):
    """Without formatter switches and the comment that opens a file; runs of spaces are one."""
    lines = [line for line in text.split("\n") if not line.strip().startswith("// clang-format")]
    return re.sub(r"[ \t]+", " ", re.sub(r"\n{2,}", "\n\n", "\n".join(lines)))


class ReadmeTest(unittest.TestCase):
    def test_every_block_is_part_of_an_example(self):
        sources = {path: normal(path.read_text()) for path in (ROOT / "tools/examples").glob("*/*.cpp")}
        found = blocks((ROOT / "runtime/README.md").read_text())
        self.assertGreaterEqual(len(found), 5)
        for block in found:
            holders = [path.name for path, text in sources.items() if normal(block).strip() in text]
            self.assertTrue(holders, f"no example holds:\n{block}")

    def test_every_example_is_named_and_run(self):
        page = (ROOT / "runtime/README.md").read_text()
        for path in (ROOT / "tools/examples").glob("*/*.cpp"):
            self.assertIn(str(path.relative_to(ROOT)), page)
            self.assertIn("memopd_add_example_test", (path.parent / "CMakeLists.txt").read_text())

    def test_a_block_that_differs_is_found(self):
        self.assertNotIn(normal("auto counters = cluster.spawn(\"other\")"), normal("auto counters = cluster.spawn(\"a\")"))


if __name__ == "__main__":
    unittest.main()
