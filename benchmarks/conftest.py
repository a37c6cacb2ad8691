"""Print the figures a benchmark recorded below the table of times, which does not show them."""

from __future__ import annotations


def pytest_terminal_summary(terminalreporter, config):
    session = getattr(config, "_benchmarksession", None)
    recorded = [b for b in getattr(session, "benchmarks", ()) if b.extra_info]
    if not recorded:
        return
    terminalreporter.section("figures")
    for bench in recorded:
        figures = ", ".join(
            f"{name} {value:,.4g}" if isinstance(value, float) else f"{name} {value}"
            for name, value in bench.extra_info.items()
        )
        terminalreporter.write_line(f"{bench.name}: {figures}")
