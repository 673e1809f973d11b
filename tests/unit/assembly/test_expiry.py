"""Until when the certificates of a configuration are good."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cryptography import x509

from gateway.assembly.expiry import expiries
from gateway.settings.load import read
from tests.support.authority import Authority


def expiry(path: str) -> float:
    """Of the first certificate in a file."""
    return x509.load_pem_x509_certificates(Path(path).read_bytes())[0].not_valid_after_utc.timestamp()


def test_every_certificate_is_found_under_the_key_that_names_its_file(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.issue("127.0.0.1")
    gone = tmp_path / "gone.pem"
    gone.write_text(Path(authority.path).read_text())
    tls = {"ca": authority.path, "cert": cert, "key": key}
    issuer = {"issuer": "https://a.example", "audience": ["b"], "algorithms": ["RS256"]}
    config = read(
        json.dumps(
            {
                "auth": {"jwt": [issuer | {"jwks_url": "https://a.example/jwks", "tls": {"ca": authority.path}}]},
                "server": {"tls": {"cert": cert, "key": key, "client_ca": authority.path}},
                "state": {"url": "rediss://127.0.0.1/0", "tls": tls},
                "backends": {
                    "crm": {"protocol": "oxp", "url": "https://127.0.0.1", "tls": tls},
                    "hr": {"protocol": "oxp", "url": "https://127.0.0.1", "tls": {"ca": str(gone)}},
                },
            }
        )
    )
    gone.write_text("what is no certificate")
    found = {labels: at for _, labels, at in expiries(config)}
    certificates = ("server.tls.cert", "state.tls.cert", "backends.crm.tls.cert")
    authorities = ("server.tls.client_ca", "state.tls.ca", "backends.crm.tls.ca", "auth.jwt[0].tls.ca")
    assert found == {(it,): expiry(cert) for it in certificates} | {(it,): expiry(authority.path) for it in authorities}
    gone.unlink()
    assert {labels: at for _, labels, at in expiries(config)} == found


def test_a_chain_is_good_until_its_first_certificate_expires_and_authorities_until_the_last(tmp_path: Path) -> None:
    authority, own = Authority(tmp_path), tmp_path / "own.pem"
    (good, key), (expired, _) = authority.issue("127.0.0.1"), authority.issue("127.0.0.1", expired=True)
    own.write_text(Path(good).read_text() + Path(expired).read_text())
    tls = {"cert": str(own), "key": key, "client_ca": str(own)}
    config = read(json.dumps({"auth": "none", "server": {"tls": tls}}))
    assert [at for _, _, at in expiries(config)] == [
        pytest.approx(expiry(expired)),
        pytest.approx(expiry(good)),
    ]
