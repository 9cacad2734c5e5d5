"""What no turn may leave other than it was: the repository's own files, most of the project, the user's dot files.

Before a turn the state of `.git` is recorded, after it whatever is another is put back and told. What lies outside of
the work tree is only seen. A turn that was cut off by the driver's death is looked at by the next driver, as long as
nobody else has been at `.git` since.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path

from pytest_iterctl.control.destruction import verdict_on
from pytest_iterctl.control.evidence import Touch
from pytest_iterctl.work.git import Repository
from pytest_iterctl.work.losses import losses_between
from pytest_iterctl.work.metadata import Metadata, Touched
from pytest_iterctl.work.surroundings import Surroundings, disturbances, look

__all__ = ["Guard", "died_at"]

_TOLD = 50
#: How much later than its last sign of life a driver may have died, and what it had started ended, in seconds.
_GRACE = 5.0


class Guard:
    """One per run. `allowed` says whether destructive changes are, in which case nothing is looked at.

    Where everything is `sealed` by a sandbox, `.git` and what lies around can't be another afterwards; what is, is the
    user's doing.
    """

    def __init__(
        self, repository: Repository, private: Path, run: str, allowed: Callable[[], bool], *, sealed: bool
    ) -> None:
        self.repository = repository
        self._sealed = sealed
        self._metadata = Metadata(repository, private / "git", own=f"refs/iterctl/{run}/")
        self._allowed = allowed
        self._digest = ""
        self._around = Surroundings()

    def before(self, *, around: bool) -> str:
        """Record what there is; the digest of it for the journal, '' where nobody looks. `around`: besides `.git`."""
        if self._sealed or self._allowed():
            return ""
        self._digest = self._metadata.keep()
        self._around = self._look() if around else Surroundings(cut=True)
        return self._digest

    @property
    def is_watching(self) -> bool:
        """Whether there is something recorded that is still to be compared."""
        return bool(self._digest)

    @property
    def problem(self) -> str:
        """Why not everything could be kept safe, '' when it is."""
        return self._metadata.problem

    def after(self, *, around: bool) -> tuple[Touch, ...]:
        """What is another now, with all of it that lies in the repository put back."""
        if not self._digest:
            return ()
        touched = _touches(self._metadata.put_back(self._metadata.compare()))
        self._digest = ""
        if not around:
            return touched
        found = disturbances(self._around, self._look())
        outside = (Touch(what=each.path, how=each.how, destructive=each.serious, outside=True) for each in found)
        return _bounded((*touched, *outside))

    def after_crash(self, digest: str, died: float) -> tuple[Touch, ...]:
        """The same for a turn that another driver began, which died about then (in seconds since the epoch).

        Where somebody has changed more since, nothing is put back: it may be the user's work.
        """
        if self._allowed() or not digest:
            return ()
        self._metadata.load(digest)
        seen = self._metadata.compare()
        if self._metadata.newest(seen) > (died + _GRACE) * 1e9:
            return _touches(seen.touched)
        return _touches(self._metadata.put_back(seen))

    def destroys(self, before: str, after: str, *, tracked: str) -> str:
        """Why a change from one snapshot to another takes more than a task can want; '' when it does not."""
        if self._allowed() or not before:
            return ""
        return verdict_on(losses_between(self.repository, before, after, tracked=tracked)).reason

    def _look(self) -> Surroundings:
        home = os.environ.get("HOME", "")
        return look(self.repository.root, Path(home)) if home.startswith("/") else Surroundings(cut=True)


def died_at(claimed_at: str, claimed_clock: float, last_clock: float) -> float:
    """When a driver gave its last sign of life, in seconds since the epoch: the run's clock counts its work alone."""
    return datetime.fromisoformat(claimed_at).timestamp() + max(last_clock - claimed_clock, 0.0)


def _touches(touched: Iterable[Touched]) -> tuple[Touch, ...]:
    return _bounded(
        Touch(what=each.what, how=each.how, destructive=each.destructive, undone=each.undone) for each in touched
    )


def _bounded(touches: Iterable[Touch]) -> tuple[Touch, ...]:
    """What counts comes first, so that it is never among what is left out."""
    return tuple(sorted(touches, key=lambda touch: not touch.destructive)[:_TOLD])
