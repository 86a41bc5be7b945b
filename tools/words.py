"""Checks that prose uses the words of the field: `make check` runs it over every text file tracked by git.

    python tools/words.py

Each phrase below avoids a term that a reader would search for. The check prints file, line, phrase and what to write
instead, and exits with 1 if it finds any. Code is checked like prose, because no identifier needs these phrases.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
SUFFIXES = {".css", ".html", ".js", ".md", ".py", ".toml", ".ts", ".yml"}
EXEMPT = {"tools/words.py", "src/regard/assets/en-es/README.md"}
"""This list, and a model card whose hash is stored beside it."""
BANNED = {
    r"go(es|ing)? on\b|gone on\b|went on (with|from)": "resume (a run), continue (a text)",
    r"(is|are|was|were|be) cut\b|cut off\b": "truncate, split",
    r"(is|are|was|were) asked for\b|what is asked": "target, label; requested",
    r"(is|are) said\b|what it says\b|what is said": "prediction, output",
    r"by chance\b": "at random, sampled",
    r"likeliest\b": "most probable",
    r"no difference that chance could not make": "no significant difference",
    r"learnt\b": "learned",
    r"anew\b": "again",
    r"mend(ed|s|ing)?\b": "fix",
    r"at hand\b": "given, current; or leave it out",
    r"so many\b": "name the number: at most N",
    r"parted (by|at)\b": "separated by, split at",
    r"of like (length|size)": "of similar length",
    r"(is|are) told\b|told in words": "is reported",
    r"unless given\b": "default: ...",
    r"to begin with\b": "initial",
    r"in vain\b": "without effect",
    r"put together\b": "merged, joined",
    r"that never was\b": "that was never interrupted",
}
PATTERN = re.compile("|".join(rf"(?P<p{i}>\b(?:{phrase}))" for i, phrase in enumerate(BANNED)), re.IGNORECASE)


def problems(path: Path) -> list[str]:
    """One line for each banned phrase in a file; a phrase may span two lines."""
    text = path.read_text("utf-8")
    joined = re.sub(r"\n[ \t#/*>-]*", lambda found: " ".ljust(len(found[0])), text)
    name = path.relative_to(ROOT)
    return [
        f"{name}:{text.count(chr(10), 0, found.start()) + 1}: {' '.join(found[0].split())!r}; write: {words}"
        for found in PATTERN.finditer(joined)
        for words in [list(BANNED.values())[int(str(found.lastgroup).removeprefix("p"))]]
    ]


def main() -> int:
    """Checks every file; the exit code is 1 if there is a problem."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    names = [name for name in listed.splitlines() if Path(name).suffix in SUFFIXES and name not in EXEMPT]
    found = [problem for name in names if (ROOT / name).exists() for problem in problems(ROOT / name)]
    sys.stdout.write("".join(f"{problem}\n" for problem in found))
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
