"""The closing lines of each kind of test program are counted as cases."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[4] / "tools" / "testing"))
import count_cases  # noqa: E402


class StatedCases(unittest.TestCase):
    def test_each_closing_line_is_read(self):
        outputs = [
            ("All tests passed (34 assertions in 12 test cases)\n", (12, 0)),
            ("All tests passed (1 assertion in 1 test case)\n", (1, 0)),
            ("test cases: 12 | 9 passed | 3 failed\nassertions: 34 | 30 passed | 4 failed\n", (9, 3)),
            ("test cases: 1 | 1 failed\nassertions: 1 | 1 failed\n", (0, 1)),
            ("test cases:  12 |  11 passed |  1 failed\nassertions: 1 | 1 failed\n", (11, 1)),
            ("No tests ran\n", (0, 0)),
            ("Ran 21 tests in 0.01s\n\nOK\n", (21, 0)),
            ("Ran 21 tests in 0.01s\n\nFAILED (failures=2, errors=1)\n", (18, 3)),
            ("Ran 2 tests in 0.01s\n\nFAILED (errors=1)\n", (1, 1)),
            ("skipped: a: needs root\n9 passed, 1 failed\n", (9, 1)),
            ("Segmentation fault\n", None),
        ]
        for output, expected in outputs:
            with self.subTest(output):
                self.assertEqual(count_cases.cases_of(output), expected)


class Sums(unittest.TestCase):
    def test_a_program_that_failed_without_a_word_is_one_failed_case(self):
        self.assertEqual(count_cases.count([(False, "killed"), (True, "All tests passed (3 assertions in 2 test cases)")]), (2, 1))

    def test_a_failure_after_passing_cases_is_not_lost(self):
        self.assertEqual(count_cases.count([(False, "All tests passed (3 assertions in 2 test cases)")]), (2, 1))

    def test_a_silent_program_that_succeeded_is_one_passed_case(self):
        self.assertEqual(count_cases.count([(True, "")]), (1, 0))


if __name__ == "__main__":
    unittest.main()
