"""The chart: rendered by real Helm over a table of values, checked against the schemas of Kubernetes and our own."""

from __future__ import annotations

import json
from pathlib import Path

import helm_python
import kubernetes_validate
import pytest
import yaml

from gateway import __version__
from tests.deploy import charts
from tests.deploy.charts import CHART, Manifest, Values, all_of, one, render, values
from tests.deploy.tools import beside_python, output

KUBERNETES = ("1.25", "1.31", "1.37")  # the oldest that the chart takes, one in use, the newest there are schemas of
OF_OTHERS = {"ServiceMonitor", "PrometheusRule", "HTTPRoute", "ExternalSecret"}  # Kubernetes has no schemas of these
WARNING = 2
STATE = {"config": {"state": {"url": "redis://127.0.0.1:6379/0", "keys": ["${env:STATE_KEY}"]}}}


@pytest.fixture(params=charts.NAMES)
def manifests(request: pytest.FixtureRequest) -> list[Manifest]:
    """What each file of values renders to."""
    return render(values(request.param))


def test_there_are_no_other_files_of_values() -> None:
    assert {path.name for path in (CHART / "ci").iterdir()} == {f"{name}-values.yaml" for name in charts.NAMES}


@pytest.mark.parametrize("name", charts.NAMES)
def test_helm_finds_nothing_to_warn_of(name: str) -> None:
    found = helm_python.lint(CHART, values(name), strict=True)
    assert found["errors"] == []
    assert [message for message in found["messages"] if message["severity"] >= WARNING] == []


@pytest.mark.parametrize("version", KUBERNETES)
def test_kubernetes_knows_every_field(manifests: list[Manifest], version: str) -> None:
    for manifest in manifests:
        if manifest["kind"] not in OF_OTHERS:
            kubernetes_validate.validate(manifest, version, strict=True)


@pytest.mark.parametrize("name", charts.CONFIGURING)
def test_the_gateway_takes_the_configuration(name: str, tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text(charts.configuration(render(values(name))))
    said = output(beside_python("toolgate"), "check", str(file), "--allow-missing-env")
    assert "good" in said


def test_everything_is_named_and_labelled_after_its_release(manifests: list[Manifest]) -> None:
    assert len({(manifest["kind"], manifest["metadata"]["name"]) for manifest in manifests}) == len(manifests)
    for manifest in manifests:
        assert manifest["metadata"]["namespace"] == charts.NAMESPACE
        assert manifest["metadata"]["labels"]["app.kubernetes.io/instance"] == charts.RELEASE


def test_every_selector_finds_the_pods(manifests: list[Manifest]) -> None:
    labels = charts.pod(manifests)["metadata"]["labels"].items()
    selectors = [service["spec"]["selector"] for service in all_of(manifests, "Service")]
    selectors += [one_["spec"]["podSelector"]["matchLabels"] for one_ in all_of(manifests, "NetworkPolicy")]
    for kind in ("Deployment", "PodDisruptionBudget"):
        selectors += [one_["spec"]["selector"]["matchLabels"] for one_ in all_of(manifests, kind)]
    assert len(selectors) >= 3
    for selector in selectors:
        assert selector
        assert selector.items() <= labels


@pytest.mark.parametrize("name", charts.CONFIGURING)
def test_every_port_that_is_named_exists_and_is_the_one_the_gateway_listens_on(name: str) -> None:
    manifests = render(values(name))
    container, server = charts.container(manifests), yaml.safe_load(charts.configuration(manifests))["server"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"http": server["port"], "admin": server["admin"]["port"]}
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["port"] == "admin"
    assert {port["targetPort"] for service in all_of(manifests, "Service") for port in service["spec"]["ports"]} == set(
        ports
    )


def test_pods_may_do_no_more_than_they_must(manifests: list[Manifest]) -> None:
    spec, container = charts.pod(manifests)["spec"], charts.container(manifests)
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["resources"]["requests"].keys() == {"cpu", "memory"}
    assert "memory" in container["resources"]["limits"]


def test_every_mount_has_its_volume_and_none_is_written_to(manifests: list[Manifest]) -> None:
    volumes = {volume["name"]: volume for volume in charts.pod(manifests)["spec"]["volumes"]}
    mounts = charts.container(manifests)["volumeMounts"]
    assert {mount["name"] for mount in mounts} == volumes.keys()
    assert all(mount.get("readOnly") for mount in mounts)


def test_callers_have_no_way_to_the_admin_port() -> None:
    manifests = render(values("production"))
    assert [port["name"] for port in one(manifests, "Service")["spec"]["ports"]] == ["http"]
    assert one(manifests, "Service", "-metrics")["spec"]["clusterIP"] == "None"
    (rule,) = one(manifests, "Ingress")["spec"]["rules"]
    backends = [path["backend"]["service"] for path in rule["http"]["paths"]]
    assert backends == [{"name": "prod-toolgate", "port": {"name": "http"}}]


def test_the_network_policy_lets_scrapers_alone_to_the_admin_port() -> None:
    given = values("production")
    callers, scrapers = one(render(given), "NetworkPolicy")["spec"]["ingress"]
    assert callers == {"ports": [{"port": "http"}], "from": given["networkPolicy"]["callers"]}
    assert scrapers["ports"] == [{"port": "admin"}]
    assert [set(peer) for peer in scrapers["from"]] == [{"namespaceSelector", "podSelector"}]
    open_to_all, _ = one(render(values("minimal")), "NetworkPolicy")["spec"]["ingress"]
    assert open_to_all == {"ports": [{"port": "http"}]}
    unscraped = render(values("minimal", {"networkPolicy": {"scrapers": []}}))
    assert one(unscraped, "NetworkPolicy")["spec"]["ingress"] == [open_to_all]


def test_a_policy_for_the_way_out_allows_dns() -> None:
    spec = one(render(values("production")), "NetworkPolicy")["spec"]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    assert {"port": 53, "protocol": "UDP"} in spec["egress"][0]["ports"]
    assert one(render(values("minimal")), "NetworkPolicy")["spec"]["policyTypes"] == ["Ingress"]


def test_the_autoscaler_alone_says_how_many_pods_there_are() -> None:
    manifests = render(values("production"))
    assert "replicas" not in one(manifests, "Deployment")["spec"]
    autoscaler = one(manifests, "HorizontalPodAutoscaler")["spec"]
    assert (autoscaler["minReplicas"], autoscaler["maxReplicas"]) == (3, 12)
    assert autoscaler["scaleTargetRef"]["name"] == one(manifests, "Deployment")["metadata"]["name"]
    assert one(render(values("minimal")), "Deployment")["spec"]["replicas"] == 1


def test_pods_that_share_nothing_are_never_two_at_a_time() -> None:
    without_keys: Values = {"config": {"state": {"url": "redis://127.0.0.1:6379/0"}}}
    for alone in ({}, without_keys):
        assert one(render(values("minimal", alone)), "Deployment")["spec"]["strategy"] == {"type": "Recreate"}
    shared = one(render(values("minimal", STATE)), "Deployment")["spec"]["strategy"]
    assert shared["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}


def test_one_pod_alone_may_be_evicted() -> None:
    assert all_of(render(values("minimal", STATE)), "PodDisruptionBudget") == []
    assert all_of(render(values("minimal", {**STATE, "replicaCount": 2})), "PodDisruptionBudget") != []


@pytest.mark.parametrize(("grace", "seconds"), [("500ms", 18), ("0s", 17), ("45s", 62), ("2m", 137), ("1h", 3617)])
def test_a_pod_is_given_longer_than_the_gateway_gives_its_calls(grace: str, seconds: int) -> None:
    manifests = render(values("minimal", {"config": {"server": {"shutdown_grace": grace}}}))
    assert charts.pod(manifests)["spec"]["terminationGracePeriodSeconds"] == seconds


def test_another_configuration_replaces_the_pods() -> None:
    def annotations(given: charts.Values) -> Manifest:
        found: Manifest = charts.pod(render(given))["metadata"]["annotations"]
        return found

    same = annotations(values("minimal"))
    assert annotations(values("minimal")) == same
    assert annotations(values("minimal", {"config": {"logging": {"level": "debug"}}})) != same


def test_a_configmap_of_the_operators_own_takes_the_place_of_ours() -> None:
    manifests = render(values("existing"))
    assert all_of(manifests, "ConfigMap") == []
    assert charts.pod(manifests)["spec"]["volumes"][0] == {"name": "config", "configMap": {"name": "gateway-config"}}
    assert "annotations" not in charts.pod(manifests)["metadata"]  # it has no checksum


def test_other_containers_run_before_ours_and_beside_it() -> None:
    given = values("existing")
    spec = charts.pod(render(given))["spec"]
    assert spec["initContainers"] == given["initContainers"]
    assert [each["name"] for each in spec["containers"]] == ["toolgate", "token-renewer"]
    assert spec["containers"][1:] == given["extraContainers"]


def test_other_objects_are_installed_as_they_are_or_as_templates() -> None:
    plain = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "as-it-is"}, "data": {"a": "{{ .Values }}"}}
    text = "apiVersion: v1\nkind: Secret\nmetadata: {name: '{{ .Release.Name }}-secret'}\n"
    first, second = all_of(render(values("minimal", {"extraObjects": [plain, text]})), "Secret")
    assert (first, second["metadata"]["name"]) == (plain, "prod-secret")


def test_a_route_of_the_gateway_api_leads_to_callers_service() -> None:
    given = values("existing")
    manifests = render(given)
    asked, spec = given["httpRoute"], one(manifests, "HTTPRoute")["spec"]
    (rule,) = spec.pop("rules")
    assert spec == {"parentRefs": asked["parentRefs"], "hostnames": asked["hostnames"]}
    (port,) = one(manifests, "Service")["spec"]["ports"]
    assert rule == {
        "matches": [{"path": {"type": "PathPrefix", "value": "/"}}],
        "timeouts": asked["timeouts"],
        "backendRefs": [{"name": "prod-toolgate", "port": port["port"]}],
    }
    assert "tools.example.com, on the listeners of its Gateways" in charts.notes(given)
    assert all_of(render(values("minimal")), "HTTPRoute") == []


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        ({}, "http://prod-toolgate.tools.svc:80"),
        ({"callback_url": "http://ours:1"}, "http://ours:1"),
        ({"public_url": "https://ours"}, None),
        ({"tls": {"cert": "c", "key": "k"}}, "https://prod-toolgate.tools.svc:80"),
    ],
)
def test_tool_servers_get_the_name_of_the_service(server: charts.Values, expected: str | None) -> None:
    manifests = render(values("minimal", {"config": {"server": server}}))
    assert yaml.safe_load(charts.configuration(manifests))["server"].get("callback_url") == expected


def test_large_numbers_stay_numbers() -> None:
    manifests = render(values("minimal", {"config": {"server": {"max_connections": 1000000}}}))
    assert "max_connections: 1000000\n" in charts.configuration(manifests)


def test_pods_are_spread_by_our_labels_by_default() -> None:
    spread = charts.pod(render(values("minimal")))["spec"]["topologySpreadConstraints"]
    selector = one(render(values("minimal")), "Deployment")["spec"]["selector"]
    assert [constraint["labelSelector"] for constraint in spread] == [selector, selector]
    (theirs,) = charts.pod(render(values("tls")))["spec"]["topologySpreadConstraints"]
    assert theirs["labelSelector"] == {"matchLabels": {"app": "tools"}}


def test_the_monitor_finds_the_service_for_operators() -> None:
    manifests = render(values("production"))
    monitor = one(manifests, "ServiceMonitor")["spec"]
    chosen = [
        service["metadata"]["name"]
        for service in all_of(manifests, "Service")
        if monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    ]
    assert chosen == ["prod-toolgate-metrics"]
    assert [endpoint["port"] for endpoint in monitor["endpoints"]] == ["admin"]


def test_alerts_and_dashboard_are_installed_as_they_are() -> None:
    manifests = render(values("production"))
    assert one(manifests, "PrometheusRule")["spec"] == yaml.safe_load((CHART / "rules/alerts.yaml").read_text())
    dashboard = one(manifests, "ConfigMap", "-dashboard")
    assert dashboard["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(dashboard["data"]["toolgate.json"]) == json.loads(
        (CHART / "dashboards/toolgate.json").read_text()
    )
    assert not {"ServiceMonitor", "PrometheusRule"} & {one_["kind"] for one_ in render(values("minimal"))}


def test_alerts_lead_to_the_runbooks_wherever_they_are_published() -> None:
    base = "https://wiki.example.com/toolgate/runbooks"
    manifests = render(values("production", {"prometheusRule": {"runbookBase": base}}))
    rules = [rule for group in one(manifests, "PrometheusRule")["spec"]["groups"] for rule in group["rules"]]
    assert rules
    for rule in rules:
        assert rule["annotations"]["runbook_url"] == f"{base}#{rule['alert'].lower()}"


def test_the_image_has_our_version_and_a_digest_wins_over_it() -> None:
    assert charts.container(render(values("minimal")))["image"] == f"toolgate:{__version__}"
    digest = "sha256:" + "0" * 64
    assert charts.container(render(values("minimal", {"image": {"digest": digest}})))["image"] == f"toolgate@{digest}"


def test_the_notes_say_where_it_is_and_what_to_mind() -> None:
    minimal, production = charts.notes(values("minimal")), charts.notes(values("production"))
    assert "http://prod-toolgate.tools.svc:80" in minimal
    assert "WARNING: config.auth is none" in minimal
    assert "set config.state.url" in minimal
    assert "https://tools.example.com" in production
    assert "WARNING" not in production
