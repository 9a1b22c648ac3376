"""The files of deploy/ and the Dockerfile say what the code knows: paths, ports, settings."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from proxy.access.keys import read_environment
from proxy.config import SECTIONS, keys, load_config

ROOT = Path(__file__).parent.parent.parent
KUBERNETES = list(yaml.safe_load_all((ROOT / "deploy/kubernetes.yaml").read_text()))
COMPOSE = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text())


def of_kind(kind):
    return [doc for doc in KUBERNETES if doc["kind"] == kind]


def variables(texts):
    return {name for text in texts for name in re.findall(r"SPARLANCE_[A-Z_]+", text)}


@pytest.mark.parametrize("file", ["Dockerfile", "deploy/compose.yaml", "deploy/kubernetes.yaml", "docs/operations.md"])
def test_every_variable_is_a_setting(file):
    """A misspelt one would stop the start."""
    known = {f"SPARLANCE_{s}_{k}".upper() for s in SECTIONS for k in keys(s)} | {"SPARLANCE_CONFIG"}
    named = {v for v in variables([(ROOT / file).read_text()]) if not v.startswith("SPARLANCE_DATASETS_")}
    assert named <= known


def test_the_settings_of_the_config_map_can_be_used(tmp_path):
    """As the container reads them."""
    [config_map] = of_kind("ConfigMap")
    (tmp_path / "config.toml").write_text(config_map["data"]["config.toml"])
    config = load_config(tmp_path / "config.toml", environ={"SPARLANCE_SERVER_HOST": "0.0.0.0"})
    assert config.cache.url == config.shared.url == "redis://sparlance-valkey:6379/0"
    [pod] = [d["spec"]["template"]["spec"] for d in of_kind("Deployment") if d["metadata"]["name"] == "sparlance"]
    assert config.server.shutdown_timeout_s < pod["terminationGracePeriodSeconds"]
    assert tomllib.loads(config_map["data"]["config.toml"])["backend"]["url"] == config.backend.url


def test_the_pod_writes_only_where_it_may():
    """The root file system is read-only; what the image writes to is mounted."""
    [pod] = [d["spec"]["template"]["spec"] for d in of_kind("Deployment") if d["metadata"]["name"] == "sparlance"]
    [container] = pod["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert pod["securityContext"]["runAsNonRoot"]
    mounted = {m["mountPath"] for m in container["volumeMounts"]}
    image = (ROOT / "Dockerfile").read_text()
    directory = re.search(r"SPARLANCE_INDEX_DIRECTORY=(\S+)", image)[1]
    assert {"/tmp", "/var/lib/sparlance"} <= mounted
    assert directory.startswith("/var/lib/sparlance/")
    probes = {container[f"{kind}Probe"]["httpGet"]["path"] for kind in ("startup", "liveness", "readiness")}
    assert probes == {"/-/live", "/-/ready"}


def test_names_that_belong_together_do():
    """A service finds its pods, a disruption budget and a network policy mean pods that there are."""
    labels = [d["spec"]["template"]["metadata"]["labels"] for d in of_kind("Deployment")]
    selectors = [d["spec"]["selector"] for d in of_kind("Service")]
    selectors += [d["spec"]["selector"]["matchLabels"] for d in of_kind("PodDisruptionBudget")]
    selectors += [d["spec"]["podSelector"]["matchLabels"] for d in of_kind("NetworkPolicy")]
    assert [s for s in selectors if s not in labels] == []


def test_each_profile_of_compose_has_a_database_and_its_sparlance():
    """On the port of that database; nothing but Sparlance has a port outside, and only on this machine."""
    by_profile = {}
    for name, service in COMPOSE["services"].items():
        [profile] = service["profiles"]
        by_profile.setdefault(profile, []).append(name)
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))
    assert by_profile == {p: [f"sparlance-{p}", p] for p in ("oxigraph", "qlever", "graphdb")}
    for profile in by_profile:
        environment = COMPOSE["services"][f"sparlance-{profile}"]["environment"]
        assert environment["SPARLANCE_BACKEND_KIND"] == profile
        config = load_config(environ={k: re.sub(r"\$\{\w+:-(\w+)\}", r"\1", v) for k, v in environment.items()})
        assert config.backend.url.startswith(f"http://{profile}:")


def test_the_example_of_a_key_can_be_read():
    """The secret of the comment, with a key in the place of the words."""
    example = re.search(r"--from-literal=keys='(\S+):<", (ROOT / "deploy/kubernetes.yaml").read_text())[1]
    assert [k.name for k in read_environment(example + ":" + "x" * 24)] == ["ops"]
