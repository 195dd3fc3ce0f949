"""The ladder of least expected work for a number of compiles, from how often each size was seen."""

from collections.abc import Mapping

# Sizes up to this one are compiled exactly, as in the ladders of Rust.
SMALLEST = 8


def suggest(calls: Mapping[int, int], compiles: int, *, align: int = 8, exponent: float = 1.0) -> list[int]:
    """At most ``compiles`` increasing buckets that serve all sizes with the least expected work.

    A call in bucket b costs ``b ** exponent``. Buckets are multiples of ``align``. This is dynamic programming over the sizes in
    order; costs satisfy the quadrangle inequality (the work grows with the bucket), so each row is filled by divide and conquer in
    O(n log n). Sizes up to 8 are left out, since they are compiled exactly.
    """
    aligned: dict[int, int] = {}
    for size, count in calls.items():
        if size > SMALLEST and count > 0:
            rung = -(-size // align) * align
            aligned[rung] = aligned.get(rung, 0) + count
    rungs = sorted(aligned)
    if not rungs or compiles < 1:
        return []
    before = [0]
    for rung in rungs:
        before.append(before[-1] + aligned[rung])
    work = [float(rung) ** exponent for rung in rungs]
    # best[j]: least work of the sizes before j; cuts[k][j]: where the last of k + 1 buckets begins.
    best = [work[j - 1] * before[j] if j else 0.0 for j in range(len(rungs) + 1)]
    cuts = [[0] * (len(rungs) + 1)]
    for _ in range(min(compiles, len(rungs)) - 1):
        best, cut = _one_more(best, before, work)
        cuts.append(cut)
    ladder, end = [], len(rungs)
    for cut in reversed(cuts):
        if end == 0:
            break
        ladder.append(rungs[end - 1])
        end = cut[end]
    return sorted(ladder)


def _one_more(best: list[float], before: list[int], work: list[float]) -> tuple[list[float], list[int]]:
    """The least work with one more bucket, and where that bucket begins, for each number of sizes."""
    size = len(best)
    found, cut = [0.0] * size, [0] * size
    open_ranges = [(1, size - 1, 0, size - 2)]
    while open_ranges:
        low, high, first, last = open_ranges.pop()
        if low > high:
            continue
        middle = (low + high) // 2
        choices = range(first, min(last, middle - 1) + 1)
        at = min(choices, key=lambda i: best[i] + work[middle - 1] * (before[middle] - before[i]))
        found[middle], cut[middle] = best[at] + work[middle - 1] * (before[middle] - before[at]), at
        open_ranges += [(low, middle - 1, first, at), (middle + 1, high, at, last)]
    return found, cut


def waste(calls: Mapping[int, int], bucket: Mapping[int, int]) -> float:
    """The share of padding: padded elements that are not data, as a part of the data."""
    true = sum(size * count for size, count in calls.items())
    padded = sum(bucket[size] * count for size, count in calls.items())
    return padded / true - 1 if true else 0.0
