"""TLS, with the server's certificate checked, and with one of our own."""

import pytest
import redis as redis_py

from offsider.core.errors import RedisUnavailable
from tests.redis.storage.every_verb import seed, walk

pytestmark = pytest.mark.needs("openssl", "redis-server")


def test_the_certificate_authority_has_to_be_trusted(tls_server, make_pool):
    assert make_pool(url=tls_server.url, tls_ca_file=str(tls_server.ca_file)).call("PING") == b"PONG"
    with pytest.raises(RedisUnavailable, match=r"(?i)certificate") as failure:
        make_pool(url=tls_server.url).call("PING")
    assert not failure.value.ambiguous


def test_the_check_can_be_switched_off(tls_server, make_pool):
    assert make_pool(url=tls_server.url, tls_verify=False).call("PING") == b"PONG"


def test_a_certificate_of_the_client_is_shown(tls_server, make_pool):
    pool = make_pool(
        url=tls_server.url,
        tls_ca_file=str(tls_server.ca_file),
        tls_cert_file=str(tls_server.cert_file),
        tls_key_file=str(tls_server.key_file),
    )
    assert pool.call("PING") == b"PONG"


def test_every_verb_works_over_tls(tls_server, make_pool):
    pool = make_pool(url=tls_server.url, tls_ca_file=str(tls_server.ca_file), size=2)
    with redis_py.Redis.from_url(tls_server.url, ssl_ca_certs=str(tls_server.ca_file)) as client:
        seed(client, pool.keys)
    walk(pool)
