"""The checks of one outside loop, remembered by name, so that its escalation can tell of all attempts."""

from __future__ import annotations

from pytest_iterctl.redaction import Redactor
from pytest_iterctl.store.database import Database

__all__ = ["Checks"]


class Checks:
    def __init__(self, database: Database, redactor: Redactor) -> None:
        self._database = database
        self._redactor = redactor

    def remember(self, loop: str, task: str, iteration: int, text: str) -> None:
        """Keep one attempt's line; iteration 1 begins the loop anew, a repeated iteration replaces itself."""
        with self._database.guarded("written"):
            self._database.connection.execute(
                "DELETE FROM checks WHERE loop = ? AND task = ? AND iteration >= ?", (loop, task, iteration)
            )
            self._database.connection.execute(
                "INSERT INTO checks VALUES (?, ?, ?, ?)", (loop, task, iteration, self._redactor(text))
            )

    def attempts(self, loop: str, task: str) -> tuple[tuple[int, str], ...]:
        with self._database.guarded("read"):
            rows = self._database.connection.execute(
                "SELECT iteration, body FROM checks WHERE loop = ? AND task = ? ORDER BY iteration", (loop, task)
            )
            return tuple((int(iteration), str(body)) for iteration, body in rows)

    def forget(self, loop: str, task: str) -> None:
        with self._database.guarded("written"):
            self._database.connection.execute("DELETE FROM checks WHERE loop = ? AND task = ?", (loop, task))
