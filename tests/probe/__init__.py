"""The probe in real runs of pytest: what it sees of a forger, and that it sees nothing in an honest run."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("tests.probe.probed")
