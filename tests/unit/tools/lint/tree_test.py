"""The tree check reports names that say nothing, foreign top-level entries and long files."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[4] / "tools" / "lint"))
import tree  # noqa: E402


class Names(unittest.TestCase):
    def test_an_empty_word_in_a_file_name_is_reported(self):
        for path in ("runtime/base/util.hpp", "envs/string_helpers.cpp", "actors/common/a.hpp", "tools/task-manager"):
            with self.subTest(path):
                self.assertEqual(len(tree.check_names([path], {})), 1)

    def test_a_word_that_only_contains_an_empty_word_is_not_reported(self):
        self.assertEqual(tree.check_names(["runtime/base/utility_function.hpp", "envs/uncommon.cpp"], {}), [])

    def test_a_type_called_by_an_empty_word_is_reported(self):
        for line in ("class ObjectManager {", "struct Misc;", "namespace util {", "  enum class RunHelper {",
                     "template <class T> struct Utils {"):
            with self.subTest(line):
                self.assertEqual(len(tree.check_names([], {"a.hpp": line + "\n"})), 1)

    def test_an_ordinary_type_is_not_reported(self):
        self.assertEqual(tree.check_names([], {"a.hpp": "class CommonPrefix {\nstruct Trajectory {\n"}), [])


class TopLevel(unittest.TestCase):
    def test_an_entry_beyond_the_agreed_ones_is_reported(self):
        self.assertEqual(len(tree.check_top_level(["runtime/a", "README.md", ".ci/run", "docs/a"])), 1)


class Sizes(unittest.TestCase):
    def test_limits_are_150_for_a_header_and_400_for_a_source(self):
        texts = {"a.hpp": "\n" * 150, "b.hpp": "\n" * 151, "c.cpp": "\n" * 400, "d.cpp": "\n" * 401}
        errors, warnings = tree.check_sizes(texts)
        self.assertEqual(errors, [])
        self.assertEqual([warning.split(":")[0] for warning in warnings], ["b.hpp", "d.cpp"])

    def test_a_stated_reason_silences_the_warning(self):
        self.assertEqual(tree.check_sizes({"b.hpp": "// Length: one table of all keys\n" + "\n" * 200}), ([], []))

    def test_no_reason_excuses_more_than_600_lines(self):
        errors, _ = tree.check_sizes({"b.cpp": "// Length: one table\n" + "\n" * 600})
        self.assertEqual(len(errors), 1)


class Pains(unittest.TestCase):
    def test_a_pain_counts_as_tested_only_by_a_tag_in_a_test_source(self):
        texts = {"tests/a_test.cpp": 'TEST_CASE("x", "[unit][pain:T07][pain:L01]")', "tests/support/b.cpp": "[pain:T08]"}
        missing = tree.untested_pains(texts)
        self.assertEqual(len(missing), 48)
        self.assertNotIn("T07", missing)
        self.assertIn("T08", missing)


if __name__ == "__main__":
    unittest.main()
