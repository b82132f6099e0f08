"""Checks the report of the demo: it parses, every job is there, nothing failed."""

import pathlib
import sys
import xml.etree.ElementTree as ElementTree

report = pathlib.Path(sys.argv[1])
root = ElementTree.parse(report).getroot()
cases = list(root.iter("testcase"))
bad = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
files = {path.stem for path in pathlib.Path("jobs").glob("*.toml")}
suites = [suite.get("name", "") for suite in root.iter("testsuite")]
missing = sorted(stem for stem in files if not any(stem in name for name in suites))

print(f"{report}: {len(cases)} test cases in {len(suites)} suites")
if not files or not cases:
    sys.exit("error: the report is empty")
if missing:
    sys.exit(f"error: no suite for {', '.join(missing)}")
if bad:
    sys.exit(f"error: not passed: {', '.join(case.get('name', '?') for case in bad)}")
