"""Makes a case that fails smaller, as long as it fails alike.

Never: knows what a case is. Deterministic, as far as the program that fails is.
"""

import time

TRIES, SECONDS = 600, 30.0


def shrink(case, failure, simpler, attempt, tries=TRIES, seconds=SECONDS):
    """(the smallest case found, its failure). simpler(case): smaller cases, the boldest first."""
    end, seen = time.monotonic() + seconds, {case}
    while True:
        for smaller in simpler(case):
            if smaller in seen:
                continue
            if not tries or time.monotonic() > end:
                return case, failure
            tries -= 1
            seen.add(smaller)
            found = attempt(smaller)
            if found is not None and found.like() == failure.like():
                case, failure = smaller, found
                break
        else:
            return case, failure
