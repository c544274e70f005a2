"""Lines of a name and a digest, as the list of verdicts and the records of stages have them.

Owns: reading them. A text with any other line (a conflict's mark, another version) is not believed; a name that stands
twice, as after a merge of two branches, counts for nothing.
Never: knows what a digest is made of. Threads: pure functions.
"""
import re

LINE = re.compile(r"(\S+) ([0-9a-f]{32})")


def parse(lines):
    """The digests by name, and the first line that is none ("" where there is no such line), where they are empty."""
    digests, twice = {}, set()
    for line in lines:
        named = LINE.fullmatch(line)
        if not named:
            return {}, line or "an empty line"
        if named[1] in digests:
            twice.add(named[1])
        digests[named[1]] = named[2]
    return {name: digest for name, digest in digests.items() if name not in twice}, ""
