"""The package as a whole: what importing it loads, and what the README promises."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import skdirdp

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("module", ["skdirdp", "skdirdp.mechanisms", "skdirdp.naive_bayes"])
def test_importing_loads_nothing_heavy(module):
    script = (
        f"import sys, {module}\n"
        "heavy = {'pgmpy', 'matplotlib', 'dp_accounting'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    output = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout
    assert output.strip() == "[]"


def test_every_public_name_can_be_imported():
    for name in skdirdp.__all__:
        assert getattr(skdirdp, name).__name__ == name
    assert set(skdirdp.__all__) <= set(dir(skdirdp))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'GaussianNB'"):
        skdirdp.GaussianNB  # noqa: B018


def test_the_example_of_the_readme_runs():
    (example,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    namespace: dict = {}
    exec(compile(example, "README.md", "exec"), namespace)
    assert namespace["accountant"].total() <= 1.0
    assert namespace["model"].privacy_.epsilon == 1.0


def test_the_readme_has_two_commands_that_set_themselves_up():
    commands = re.findall(r"^```bash\n(.*?)\n```$", README, flags=re.MULTILINE | re.DOTALL)
    assert len(commands) == 2
    for command in commands:
        assert command.startswith("python3 -m venv ")
        assert command.count("\n") == 0


def test_links_of_the_documentation_lead_to_files():
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
