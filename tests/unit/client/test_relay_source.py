"""The parts that the sources of relays share."""

import socket

from offsider.client.relay_source import identity_of, wait_for_notification


class Connection:
    """A connection of psycopg with these notifications."""

    def __init__(self, found):
        self.found = found

    def notifies(self, **options):
        assert options == {"timeout": 2.0, "stop_after": 1}
        yield from self.found


def test_a_database_of_this_machine_has_one_identity_and_others_have_their_own():
    hosts = (None, "", "localhost", "/run/postgresql", socket.gethostname())
    here = {identity_of(host, 5432, "shop") for host in hosts}
    assert len(here) == 1
    assert identity_of("db.example.com", 5432, "shop") not in here
    assert identity_of(None, 5432, "other") not in here


def test_a_wait_for_a_notification_ends_with_the_first_or_at_its_time():
    assert wait_for_notification(Connection([object()]), 2.0)
    assert wait_for_notification(Connection([]), 2.0)


def test_an_old_psycopg_cannot_wait():
    class Old:
        def notifies(self):
            """Takes no timeout."""

    assert not wait_for_notification(Old(), 2.0)
