"""Settings of TLS: what cannot work is refused at the start, by its key, with what to write."""

from __future__ import annotations

import contextlib
import shutil
import ssl
import subprocess

import pytest

from cometmq.model.errors import SettingsError
from cometmq.model.tls import TlsSettings
from cometmq.nameserver.settings import read_nameserver_settings
from cometmq.net.tls import ServerFiles, TlsMode
from tests.support import certificates
from tests.support.processes import wait_until


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificates")
    return certificates.signed(certificates.authority(folder), "server")


def read(tmp_path, text, *flags):
    conf = tmp_path / "namesrv.conf"
    conf.write_text(text)
    conf.chmod(0o600)
    return read_nameserver_settings(str(conf), flags, {})[0]


def test_a_certificate_alone_means_enforcing_and_none_means_plain(tmp_path, pair):
    cert, key = pair
    named = f"tls.server.certPath={cert}\ntls.server.keyPath={key}\n"
    assert read(tmp_path, named).server_tls().mode is TlsMode.enforcing
    assert (
        read(tmp_path, named + "tls.server.mode=permissive\n").server_tls().mode
        is TlsMode.permissive
    )
    assert read(tmp_path, named + "tls.server.mode=disabled\n").server_tls() is None
    assert read(tmp_path, "").server_tls() is None
    assert read(tmp_path, "tls.server.mode=permissive\n").server_tls() is None
    (tmp_path / "tls.properties").write_text(named)
    by_file = read(tmp_path, f"tls.config.file={tmp_path}/tls.properties\n")
    assert by_file.server_tls().mode is TlsMode.enforcing


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("tls.server.mode=enforcing\n", "needs a certificate and its key"),
        ("tls.server.mode=sometimes\n", "one of disabled, permissive, enforcing"),
        ("tls.server.certPath={cert}\n", "needs a certificate and its key"),
        ("tls.server.certPath={cert}\ntls.server.keyPath=/nowhere.key\n", "No such file"),
        ("tls.server.certPath={cert}\ntls.server.keyPath={cert}\n", "belong together|other users can access"),
        ("tls.server.need.client.auth=require\n", "needs TLS"),
        ("tls.server.certPath={cert}\ntls.server.keyPath={key}\ntls.server.need.client.auth=require\n", "trustCertPath"),
        ("tls.test.mode.enable=true\n", "CometMQ creates no test certificate"),
        ("tls.config.file=/nowhere.properties\n", "No such file"),
        ("useTLS=true\n", "useTLS=true"),
    ],
)  # fmt: skip
def test_what_cannot_work_is_refused(tmp_path, pair, text, words):
    cert, key = pair
    with pytest.raises(SettingsError, match=words):
        read(tmp_path, text.format(cert=cert, key=key))


def test_a_key_that_others_may_read_is_refused(tmp_path, pair):
    cert, key = pair
    copy = tmp_path / "open.key"
    copy.write_bytes(key.read_bytes())
    copy.chmod(0o644)
    with pytest.raises(SettingsError, match="chmod 600"):
        read(tmp_path, f"tls.server.certPath={cert}\ntls.server.keyPath={copy}\n")


def test_a_password_is_no_flag_and_is_not_shown(tmp_path):
    with pytest.raises(SettingsError, match="is a secret") as caught:
        read(tmp_path, "", "--tls-server-key-password", "s3cret")
    assert "s3cret" not in str(caught.value)
    conf = tmp_path / "open.conf"
    conf.write_text("tls.server.keyPassword=s3cret\n")
    conf.chmod(0o644)
    with pytest.raises(SettingsError, match="other users may read it") as caught:
        read_nameserver_settings(str(conf), (), {})
    assert "s3cret" not in str(caught.value)


def test_what_a_client_cannot_mean_is_refused():
    with pytest.raises(SettingsError, match="key_file is set without cert_file"):
        TlsSettings(key_file="x")
    with pytest.raises(SettingsError, match="ca_file"):
        TlsSettings(ca_file="")
    assert "s3cret" not in repr(TlsSettings(key_password="s3cret"))


@pytest.mark.parametrize("first", ["AES128-GCM-SHA256", "AES256-GCM-SHA384"])
def test_the_cipher_is_the_one_that_the_client_likes_best(pair, first):
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    client.maximum_version = (
        ssl.TLSVersion.TLSv1_2
    )  # The order of those of 1.3 is not ours to set.
    client.set_ciphers(
        f"ECDHE-ECDSA-{first}:ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384"
    )
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(back, there)
    cert, key = map(str, pair)
    served = ServerFiles(cert, key).load()[0].wrap_bio(there, back, server_side=True)
    for end in (asking, served, asking, served):
        with contextlib.suppress(ssl.SSLWantReadError):
            end.do_handshake()
    used = served.cipher()
    assert used is not None
    assert used[0] == f"ECDHE-ECDSA-{first}"


def test_a_certificate_that_has_expired_is_refused_and_a_new_one_like_it_is_not_taken(
    tmp_path, pair, caplog
):
    cert, key = pair
    # Valid to the very second in which it is made.
    old, old_key = certificates.signed(cert.with_name("ca.pem"), "old", days=0)
    wait_until(lambda: not is_valid(old), seconds=30, what="its last second")
    text = (
        "tls.server.certPath={}\ntls.server.keyPath={}\ntls.server.need.client.auth=require\n"
    )
    text += f"tls.server.trustCertPath={cert.with_name('ca.pem')}\n"
    with pytest.raises(SettingsError, match=r"old.pem has expired.* replace it"):
        read(tmp_path, text.format(old, old_key)).server_tls()
    place, place_key = tmp_path / "server.pem", tmp_path / "server.key"
    for source, target in ((cert, place), (key, place_key)):
        shutil.copy(source, target)
    served = read(tmp_path, text.format(place, place_key)).server_tls()
    for source, target in ((old, place), (old_key, place_key)):
        shutil.copy(source, target)
    served.look()
    assert "the old one stays in use" in caplog.text


def is_valid(cert) -> bool:
    ask = ["openssl", "x509", "-checkend", "0", "-noout", "-in", str(cert)]
    return subprocess.run(ask, capture_output=True, timeout=60, check=False).returncode == 0
