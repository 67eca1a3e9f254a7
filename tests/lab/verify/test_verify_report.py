"""The report on a comparison with recorded facts."""

from stowplan.lab.verify.report import FactCounts, FactDifference, VerifyReport, render_text


def report_with(*facts: tuple[str, str, bool], keep: int = 20) -> VerifyReport:
    report = VerifyReport(keep=keep)
    for number, (family, subject, equal) in enumerate(facts):
        difference = None if equal else FactDifference(f"case {number}", {"a": 1}, {"a": 2})
        report.add(family, subject, equal, difference)
    return report


def test_facts_are_counted_by_family_and_subject() -> None:
    report = report_with(("f", "x", True), ("f", "x", False), ("f", "y", True))
    report.not_built("f", "z", 7)
    assert report.counts == {
        ("f", "x"): FactCounts(compared=2, equal=1),
        ("f", "y"): FactCounts(compared=1, equal=1),
        ("f", "z"): FactCounts(not_built=7),
    }
    assert report.total == FactCounts(compared=3, equal=2, not_built=7)


def test_only_a_difference_makes_a_report_fail() -> None:
    passing = report_with(("f", "x", True))
    passing.not_built("f", "y")
    assert not passing.failed
    assert report_with(("f", "x", True), ("f", "x", False)).failed


def test_a_report_prints_as_an_aligned_table_with_a_total() -> None:
    report = report_with(*[("volumes", "scores", True)] * 1234, ("dra", "best", True))
    report.not_built("dra", "scores", 2)
    assert render_text(report) == (
        "family   subject  compared  equal  different  not built\n"
        "-------  -------  --------  -----  ---------  ---------\n"
        "dra      best            1      1          -          -\n"
        "dra      scores          -      -          -          2\n"
        "volumes  scores      1,234  1,234          -          -\n"
        "total                1,235  1,235          -          2\n"
    )


def test_differences_are_shown_in_full_one_subject_after_the_other() -> None:
    report = report_with(("f", "x", False), ("f", "x", False), ("f", "y", False))
    text = render_text(report, limit=2)
    assert text.endswith(
        "\n"
        "f / x: case 0\n"
        '  expected  {"a": 1}\n'
        '  actual    {"a": 2}\n'
        "\n"
        "f / y: case 2\n"
        '  expected  {"a": 1}\n'
        '  actual    {"a": 2}\n'
        "\n"
        "… and 1 more\n"
    )


def test_only_the_first_differences_of_a_subject_are_kept_but_all_are_counted() -> None:
    report = report_with(*[("f", "x", False)] * 5, keep=2)
    assert [difference.where for difference in report.differences["f", "x"]] == ["case 0", "case 1"]
    assert report.total.different == 5
    assert "… and 3 more" in render_text(report, limit=10)


def test_endless_values_and_values_that_are_no_json_are_still_readable() -> None:
    report = VerifyReport()
    report.add("f", "x", False, FactDifference("w" * 600, "v" * 5000, {1, 2}))
    text = render_text(report)
    assert "… (600 characters)" in text
    assert "… (5,002 characters)" in text
    assert "actual    {1, 2}" in text


def test_an_empty_report_is_a_table_of_nothing() -> None:
    assert render_text(VerifyReport()).splitlines()[-1].split() == ["total", "-", "-", "-", "-"]
