"""Do connections to servers share one TLS context, which reads no certificate authorities?"""

import ssl

from replication_lab.world.mysql import tls


def test_connections_share_one_context_that_verifies_nothing():
    """A context of PyMySQL's own reads all authorities of the machine, for each connection."""
    one, other = (vars(tls.TlsConnection(defer_connect=True))["ctx"] for _ in range(2))

    assert one is other
    assert not one.get_ca_certs()
    assert (one.verify_mode, one.check_hostname) == (ssl.CERT_NONE, False)


def test_a_server_without_tls_is_not_refused():
    """TLS is used where the server has it."""
    assert not vars(tls.TlsConnection(defer_connect=True))["_ssl_required"]


def test_a_connection_without_tls_has_no_context():
    """The clients of a load do without."""
    assert not tls.TlsConnection(defer_connect=True, ssl_disabled=True).ssl


def test_a_password_reaches_the_server_in_utf_8():
    """PyMySQL alone sends Latin-1, and ends with an error of Python's for other characters."""
    assert tls.TlsConnection(password="Zürich 東京", defer_connect=True).password == "Zürich 東京".encode()
