"""Orders lines that ranks wrote at the same time, so that equal ones can fold."""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping, Sequence

    Line = TypeVar("Line", bound=Hashable)


def merged(by_rank: Mapping[int, Sequence[Line]]) -> Iterator[tuple[int, Line]]:
    """Yield each rank's lines in its own order: lines of only one rank before those that others have later, too.

    Args:
        by_rank: rank -> its lines.
    """
    left = {rank: deque(lines) for rank, lines in by_rank.items() if lines}
    own = {rank: Counter(lines) for rank, lines in left.items()}
    all_ranks: Counter[Line] = Counter()
    for counter in own.values():
        all_ranks.update(counter)
    while left:
        heads = {rank: lines[0] for rank, lines in left.items()}
        alone = [rank for rank, line in heads.items() if all_ranks[line] == own[rank][line]]
        if alone:
            # Those with most lines left: ranks with equally many take turns. None of these lines is another rank's, so
            # that one turn changes nothing for the others; of a thousand ranks each is looked at once a turn.
            most = max(len(left[rank]) for rank in alone)
            chosen = [rank for rank in alone if len(left[rank]) == most]
        else:
            line, _ = Counter(heads.values()).most_common(1)[0]
            chosen = [rank for rank, head in heads.items() if head == line]
        for rank in chosen:
            line = left[rank].popleft()
            own[rank][line] -= 1
            all_ranks[line] -= 1
            if not left[rank]:
                del left[rank]
            yield rank, line
