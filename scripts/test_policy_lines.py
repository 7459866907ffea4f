"""Tests of policy_lines.py."""

import unittest

import policy_lines


class PolicyLines(unittest.TestCase):
    def test_comments_blank_lines_and_tests_do_not_count(self):
        text = "//! About.\n\nuse a;\n// why\nfn f() {\n    1 // one\n}\n\n#[cfg(test)]\nmod tests {\n    fn g() {}\n}\n"
        self.assertEqual(policy_lines.count(text), 4)

    def test_every_policy_is_listed(self):
        files = {file for _, files, _ in policy_lines.ROWS for file in files}
        there = {path.name for path in policy_lines.POLICIES.glob("*.rs")} - {"mod.rs"}
        self.assertEqual(files, there)

    def test_the_page_is_up_to_date(self):
        page = policy_lines.PAGE.read_text(encoding="utf-8")
        self.assertEqual(page, policy_lines.updated(page))


if __name__ == "__main__":
    unittest.main()
