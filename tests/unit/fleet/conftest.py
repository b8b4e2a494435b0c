"""Jobs declared by a test are forgotten after it; `config` is the default configuration of the process."""

from tests.unit.jobs.conftest import config, forgotten

__all__ = ["config", "forgotten"]
