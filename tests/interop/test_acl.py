"""Access control and TLS of ours with official programs: their signed clients and tools at our servers."""

import pytest

from cometmq import Admin, ClientSettings, Credentials, TlsSettings
from cometmq.admin import GroupConfig
from tests.interop import admin_jvm, reference
from tests.support import certificates
from tests.support.accounts import (
    ADMIN,
    CANARY,
    NO_SLAVES,
    account,
    guarded_cluster,
    tools_file,
)
from tests.support.auth_users import auth_settings
from tests.support.programs import run_program, small_cluster

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(600)]

CUSTOMER = Credentials("customer", f"{CANARY}-customer")
RIGHTS = account(
    CUSTOMER,
    topicPerms=["orders=PUB|SUB", "more=SUB"],
    groupPerms=["readers=SUB", "poppers=SUB"],
)
SAID = (
    "send",
    "batch",
    "byUniqueKey",
    "byKey",
    "secret",
    "secretBatch",
    "transaction",
    "consumed",
    "popped",
    "stranger",
)
# What 4.9 says, which has no pop.
POPPED = {"5.3.3": "13 true [true]", "4.9.7": "NoSuchMethodException"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    folder = tmp_path_factory.mktemp("guarded")
    with guarded_cluster(folder, RIGHTS) as (names, broker):
        make_topics(names, ClientSettings(credentials=ADMIN))
        yield names, broker


def make_topics(names, settings):
    with Admin(names.address, settings=settings) as admin:
        for topic in ("orders", "secret"):
            admin.topics.create(topic, queues=2)
        admin.groups.create(GroupConfig("poppers"))
        admin.topics.set_request_mode("orders", "poppers", "POP")


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory):
    """The same over TLS alone, for clients that show a certificate."""
    folder = tmp_path_factory.mktemp("encrypted")
    ca = certificates.authority(folder)
    cert, key = certificates.signed(ca, "server")
    own_cert, own_key = certificates.signed(ca, "own")
    both = {
        "tls.server.certPath": cert, "tls.server.keyPath": key, "tls.server.need.client.auth": "require",
        "tls.server.trustCertPath": ca, "tls.enable": "true", "tls.client.trustCertPath": ca,
        "tls.client.certPath": own_cert, "tls.client.keyPath": own_key,
    }  # fmt: skip
    with guarded_cluster(folder, RIGHTS, both=both) as (names, _):
        tls = TlsSettings(ca_file=str(ca), cert_file=str(own_cert), key_file=str(own_key))
        make_topics(names, ClientSettings(credentials=ADMIN, tls=tls))
        yield names, ca, own_cert, own_key


def signed_client(folder, nameserver, credentials, *, version, header="JSON", more=()):
    """What `java/src/signed/Signed.java` says, by name."""
    source = reference.HERE / "java" / "src" / "signed" / "Signed.java"
    done = run_program(
        reference.java(), "-Xmx256m", *reference.quick_start(version), *reference.OPENS, f"-Duser.home={folder}",
        f"-Drocketmq.client.logRoot={folder}", f"-Drocketmq.serialize.type={header}",
        *more, *reference.class_path(source, version), "signed.Signed", seconds=120, status=None,
        env={"NAMESRV": nameserver, "ACCESS_KEY": credentials.access_key, "SECRET_KEY": credentials.secret_key},
    )  # fmt: skip
    said = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    assert set(SAID) <= set(said), done.stdout + done.stderr
    return said


@pytest.mark.parametrize(
    ("version", "header"), [("5.3.3", "JSON"), ("4.9.7", "JSON"), ("5.3.3", "ROCKETMQ")]
)
def test_a_signed_java_client_does_what_it_may_and_no_more(cluster, tmp_path, version, header):
    names, _ = cluster
    said = signed_client(tmp_path, names.address, CUSTOMER, version=version, header=header)
    assert said["send"] == said["batch"] == "SEND_OK"
    assert said["byUniqueKey"] == "m9"
    assert int(said["byKey"]) >= 1
    assert said["transaction"] == "COMMIT_MESSAGE"
    assert said["consumed"] == "13 true"
    assert said["popped"].startswith(POPPED[version])
    assert said["stranger"] == "0 false"
    for name in ("secret", "secretBatch"):
        assert CANARY not in said[name]
        # Its route is refused already, so that no broker of it is known.
        assert "No route info" in said[name] or said[name].startswith("code 16 ")


@pytest.mark.parametrize("version", ["5.3.3", "4.9.7"])
def test_a_signed_java_client_speaks_tls_with_a_certificate_of_its_own(
    encrypted, tmp_path, version
):
    names, ca, cert, key = encrypted
    more = [
        "-Dtls.enable=true", "-Dtls.test.mode.enable=false", "-Dtls.client.authServer=true", f"-Dtls.client.trustCertPath={ca}",
        f"-Dtls.client.certPath={cert}", f"-Dtls.client.keyPath={key}", "-Dtls.config.file=/nowhere",
    ]  # fmt: skip
    said = signed_client(tmp_path, names.address, CUSTOMER, version=version, more=more)
    assert said["send"] == said["batch"] == "SEND_OK"
    assert said["consumed"] == "13 true"
    assert said["popped"].startswith(POPPED[version])
    assert said["stranger"] == "0 false"
    assert "SEND_OK" not in said["secret"]


def test_a_java_client_with_a_wrong_secret_sends_nothing(cluster, tmp_path):
    names, broker = cluster
    wrong = Credentials(CUSTOMER.access_key, "another-secret")
    said = signed_client(tmp_path, names.address, wrong, version="5.3.3")
    assert said["consumed"] == "0 false"
    assert said["popped"] == "0 false []"
    assert "SEND_OK" not in said.values()
    assert CANARY not in broker.log.read_text()


def test_mqadmin_signs_with_its_tools_file(cluster, tmp_path):
    names, _ = cluster
    refused = admin_jvm.mqadmin(tmp_path, names.address, "topicList")
    assert "access key" in refused
    tools_file(tmp_path / "home" / "conf" / "tools.yml", ADMIN)
    assert "orders" in admin_jvm.mqadmin(tmp_path, names.address, "topicList").split()
    made = admin_jvm.mqadmin(
        tmp_path, names.address, "updateTopic", "-c", "DefaultCluster", "-t", "more"
    )
    assert "success" in made
    config = admin_jvm.mqadmin(
        tmp_path, names.address, "getBrokerConfig", "-c", "DefaultCluster"
    )
    assert "aclEnable" in config
    assert CANARY not in config


def make_customer(tmp_path, names):
    """The customer with his rights, by the tools of 5.3.3; no column of theirs shows a password."""

    def mqadmin(*words):
        said = admin_jvm.mqadmin(tmp_path, names.address, *words, "-c", "DefaultCluster")
        assert CANARY not in said
        return said

    tools_file(tmp_path / "home" / "conf" / "tools.yml", ADMIN)
    made = mqadmin(
        "createUser",
        "-u",
        CUSTOMER.access_key,
        "-p",
        CUSTOMER.secret_key,
        "-t",
        "Normal",
    )
    assert "success" in made
    for resources, actions in (
        ("Topic:orders", "Pub,Sub,Get"),
        ("Group:readers", "Sub,Get"),
        ("Group:poppers", "Sub,Get"),
    ):
        words = ("-r", resources, "-a", actions, "-d", "Allow")
        assert "success" in mqadmin("createAcl", "-s", "User:customer", *words)
    listed = mqadmin("listUser")
    assert "******" in listed
    assert "customer" in listed
    assert "Topic:orders" in mqadmin("getAcl", "-s", "User:customer")


def test_mqadmin_makes_users_and_policies_and_java_clients_have_them(tmp_path):
    """Auth 2.0 as 5.3.3: users by its tools, then its client with their rights; no column shows a password."""
    settings = auth_settings(ADMIN, ADMIN, **NO_SLAVES)
    with small_cluster(tmp_path, **settings) as (names, _):
        make_topics(names, ClientSettings(credentials=ADMIN))
        make_customer(tmp_path, names)
        said = signed_client(tmp_path, names.address, CUSTOMER, version="5.3.3")
    assert said["send"] == said["batch"] == "SEND_OK"
    assert said["consumed"] == "13 true"
    assert said["popped"] == POPPED["5.3.3"]
    assert said["stranger"] == "0 false"
    assert said["byUniqueKey"] == "m9"
    assert said["secret"].startswith("code 16 ")
    assert said["secretBatch"].startswith("code 16 ")
