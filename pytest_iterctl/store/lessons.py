"""What became of strategies over all runs of a repository: how often each has helped after which type of error."""

from __future__ import annotations

from pytest_iterctl.store.database import Database

__all__ = ["Lessons"]


class Lessons:
    def __init__(self, database: Database) -> None:
        self._database = database

    def learn(self, error_type: str, strategy: str, *, helped: bool) -> None:
        with self._database.guarded("written"):
            self._database.connection.execute(
                "INSERT INTO lessons VALUES (?, ?, ?, ?) ON CONFLICT (error_type, strategy) DO UPDATE SET "
                "succeeded = succeeded + excluded.succeeded, failed = failed + excluded.failed",
                (error_type, strategy, int(helped), int(not helped)),
            )

    def all(self) -> dict[tuple[str, str], tuple[int, int]]:
        """How often it has helped and how often not, by error type and strategy."""
        with self._database.guarded("read"):
            rows = self._database.connection.execute(
                "SELECT error_type, strategy, succeeded, failed FROM lessons ORDER BY error_type, strategy"
            )
            return {(str(error), str(name)): (int(good), int(bad)) for error, name, good, bad in rows}

    def forget(self) -> int:
        """Begin anew; how many lessons there were."""
        with self._database.guarded("written"):
            return self._database.connection.execute("DELETE FROM lessons").rowcount
