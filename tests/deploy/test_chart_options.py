"""What operators set in the chart, and what becomes of it; the chart as a part of another one."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, cast

import helm_python
import kubernetes_validate
import pytest
import yaml

from tests.deploy import charts, promql
from tests.deploy.charts import CHART, Manifest, Values, all_of, one, render, values
from tests.deploy.tools import CHECKOUT

EVERYTHING: Values = {
    "commonLabels": {"team": "tools"},
    "commonAnnotations": {"example.com/cost": "7"},
    "deployment": {"revisionHistoryLimit": 3, "minReadySeconds": 5, "labels": {"a": "b"}},
    "startupProbe": {"failureThreshold": 90},
    "livenessProbe": {"exec": {"command": ["true"]}, "periodSeconds": 7},
    "readinessProbe": None,
    "hostAliases": [{"ip": "10.0.0.7", "hostnames": ["mail.corp.example"]}],
    "dnsPolicy": "None",
    "dnsConfig": {"nameservers": ["10.0.0.10"], "options": [{"name": "ndots", "value": "2"}]},
    "schedulerName": "mine",
    "runtimeClassName": "gvisor",
    "service": {
        "type": "LoadBalancer",
        "labels": {"public": "yes"},
        "nodePort": 30080,
        "appProtocol": "http",
        "loadBalancerClass": "example.com/inner",
        "loadBalancerSourceRanges": ["10.0.0.0/8"],
        "externalTrafficPolicy": "Local",
        "ipFamilyPolicy": "PreferDualStack",
        "ipFamilies": ["IPv4", "IPv6"],
        "sessionAffinity": "ClientIP",
        "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 600}},
    },
    "autoscaling": {
        "targetCPUUtilizationPercentage": None,
        "targetMemoryUtilizationPercentage": 80,
        "metrics": [
            {
                "type": "Pods",
                "pods": {
                    "metric": {"name": "toolgate_calls_in_flight"},
                    "target": {"type": "AverageValue", "averageValue": "200"},
                },
            }
        ],
        "behavior": {"scaleDown": {"stabilizationWindowSeconds": 600}},
    },
    "podDisruptionBudget": {"minAvailable": "50%"},
    "serviceMonitor": {
        "namespace": "monitoring",
        "relabelings": [{"action": "labeldrop", "regex": "pod"}],
        "metricRelabelings": [{"action": "drop", "regex": "python_.*", "sourceLabels": ["__name__"]}],
        "sampleLimit": 50000,
    },
    "prometheusRule": {
        "alerts": {
            "ToolgateOverhead": {"threshold": 0.1, "for": "1h"},
            "ToolgateCertificateExpires": {"threshold": 2592000},
            "ToolgateBackendDown": {"severity": "page", "labels": {"team": "mail"}},
            "ToolgateToolsShut": {"enabled": False},
        },
        "rules": [{"alert": "Mine", "expr": "up == 0"}],
    },
}


@pytest.fixture(scope="module")
def everything() -> list[Manifest]:
    return render(values("production", EVERYTHING))


def test_kubernetes_knows_all_that_can_be_set(everything: list[Manifest]) -> None:
    for manifest in everything:
        if manifest["kind"] not in ("ServiceMonitor", "PrometheusRule"):
            kubernetes_validate.validate(manifest, "1.37", strict=True)


def test_every_object_and_the_pods_have_the_common_labels_and_annotations(everything: list[Manifest]) -> None:
    for metadata in (*(each["metadata"] for each in everything), charts.pod(everything)["metadata"]):
        assert metadata["labels"]["team"] == "tools"
        assert metadata["annotations"]["example.com/cost"] == "7"
    assert one(everything, "Deployment")["metadata"]["labels"]["a"] == "b"
    assert "checksum/config" in charts.pod(everything)["metadata"]["annotations"]
    for selector in (
        one(everything, "Deployment")["spec"]["selector"]["matchLabels"],
        one(everything, "Service")["spec"]["selector"],
    ):
        assert "team" not in selector  # which may not change at an upgrade


def test_pods_have_the_probes_names_and_dns_that_are_asked_for(everything: list[Manifest]) -> None:
    container, spec = charts.container(everything), charts.pod(everything)["spec"]
    own = {"path": "/livez", "port": "admin"}
    assert container["startupProbe"] == {"httpGet": own, "periodSeconds": 2, "failureThreshold": 90}
    assert container["livenessProbe"]["exec"] == {"command": ["true"]}
    assert "httpGet" not in container["livenessProbe"]
    assert "readinessProbe" not in container
    for name in ("hostAliases", "dnsPolicy", "dnsConfig", "schedulerName", "runtimeClassName"):
        assert spec[name] == EVERYTHING[name]
    assert one(everything, "Deployment")["spec"]["revisionHistoryLimit"] == 3


def test_the_service_has_all_its_fields(everything: list[Manifest]) -> None:
    asked, service = EVERYTHING["service"], one(everything, "Service")
    assert service["metadata"]["labels"]["public"] == "yes"
    placed = {"labels", "annotations", "port", "nodePort", "appProtocol"}
    assert service["spec"].items() >= {name: it for name, it in asked.items() if name not in placed}.items()
    port = {"name": "http", "port": 80, "targetPort": "http", "nodePort": 30080, "appProtocol": "http"}
    assert service["spec"]["ports"] == [port]


def test_the_autoscaler_goes_by_what_it_is_told(everything: list[Manifest]) -> None:
    spec, asked = one(everything, "HorizontalPodAutoscaler")["spec"], EVERYTHING["autoscaling"]
    memory = {"name": "memory", "target": {"type": "Utilization", "averageUtilization": 80}}
    assert spec["metrics"] == [{"type": "Resource", "resource": memory}, *asked["metrics"]]
    assert spec["behavior"] == asked["behavior"]
    budget = one(everything, "PodDisruptionBudget")["spec"]
    assert (budget["minAvailable"], "maxUnavailable" in budget) == ("50%", False)


def test_the_monitor_relabels(everything: list[Manifest]) -> None:
    monitor, asked = one(everything, "ServiceMonitor"), EVERYTHING["serviceMonitor"]
    assert (monitor["metadata"]["namespace"], monitor["spec"]["sampleLimit"]) == ("monitoring", 50000)
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint.items() >= {name: asked[name] for name in ("relabelings", "metricRelabelings")}.items()


def rules(manifests: list[Manifest]) -> dict[str, Any]:
    groups = one(manifests, "PrometheusRule")["spec"]["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


def test_alerts_have_the_severities_and_thresholds_that_are_set(everything: list[Manifest]) -> None:
    shipped, changed = rules(render(values("production"))), rules(everything)
    base = values("production")["prometheusRule"].get("runbookBase", "docs/runbooks.md")
    assert base == "docs/runbooks.md"
    assert shipped == {rule["alert"]: rule for rule in promql.alerts()}
    assert changed.keys() == shipped.keys() - {"ToolgateToolsShut"} | {"Mine"}
    overhead = changed["ToolgateOverhead"]
    assert overhead["expr"] == shipped["ToolgateOverhead"]["expr"].replace("0.025 #", "0.1 #")
    assert overhead["for"] == "1h"
    assert "< 2592000 # threshold" in changed["ToolgateCertificateExpires"]["expr"]
    assert changed["ToolgateBackendDown"]["labels"] == {"severity": "page", "team": "mail"}
    same = shipped.keys() - {"ToolgateToolsShut", *EVERYTHING["prometheusRule"]["alerts"]}
    assert {name: changed[name] for name in same} == {name: shipped[name] for name in same}


def test_every_threshold_can_be_set_and_the_expression_stays_one() -> None:
    marked = [rule["alert"] for rule in promql.alerts() if "# threshold" in rule["expr"]]
    given = {"prometheusRule": {"alerts": {name: {"threshold": 12345} for name in marked}}}
    changed = rules(render(values("production", given)))
    for name in marked:
        assert changed[name]["expr"].count("12345 # threshold") == 1
        assert list(promql.selectors(changed[name]["expr"]))


WRONG_ALERTS = [
    ({"ToolgateOverheads": {}}, "prometheusRule.alerts.ToolgateOverheads is no alert; there are ToolgateAbsent, "),
    ({"ToolgateAbsent": {"threshold": 1}}, "prometheusRule.alerts.ToolgateAbsent has no threshold."),
    ({"ToolgateOverhead": {"sevirity": "page"}}, "additional properties 'sevirity' not allowed"),
]


@pytest.mark.parametrize(("alerts", "message"), WRONG_ALERTS)
def test_what_no_alert_has_is_refused(alerts: Values, message: str) -> None:
    with pytest.raises(helm_python.HelmError) as caught:
        render(values("production", {"prometheusRule": {"alerts": alerts}}))
    assert message in str(caught.value)


def test_one_teams_tool_server_is_no_page() -> None:
    for rule in promql.alerts():
        if rule["labels"]["severity"] == "critical":
            assert "backend" not in promql.grouped_by(rule["expr"]) or "avg by (namespace, job)" in rule["expr"]


# As a part of another chart.


def parent(folder: Path, given: Values) -> list[Manifest]:
    """What a chart renders to that has this one as a dependency with a condition."""
    (folder / "charts").mkdir(parents=True)
    shutil.copytree(CHART, folder / "charts/toolgate")
    dependency = {"name": "toolgate", "version": "0.2.0", "repository": "", "condition": "toolgate.enabled"}
    about = {"apiVersion": "v2", "name": "fleet", "version": "1.0.0", "dependencies": [dependency]}
    (folder / "Chart.yaml").write_text(yaml.safe_dump(about))
    (folder / "values.yaml").write_text("{}")
    with helm_python.Chart.load(folder) as chart:
        rendered = cast(dict[str, str], chart.render({"toolgate": given}, name="fleet", namespace="tools"))
    texts = [text for path, text in rendered.items() if path.endswith(".yaml")]
    return [manifest for text in texts for manifest in yaml.safe_load_all(text) if manifest is not None]


def test_another_chart_can_have_it_on_a_condition(tmp_path: Path) -> None:
    on = parent(tmp_path / "on", values("minimal", {"enabled": True}))
    assert one(on, "Deployment")["metadata"]["name"] == "fleet-toolgate"
    assert parent(tmp_path / "off", {"enabled": False}) == []


def test_alone_it_can_be_switched_off_too() -> None:
    assert render({"enabled": False}) == []
    assert all_of(render(values("minimal", {"enabled": True})), "Deployment")


def test_the_annotated_configuration_fits() -> None:
    written = yaml.safe_load((CHECKOUT / "config/production.yaml").read_text())
    server = {"host": "0.0.0.0", "admin": {"host": "0.0.0.0"}}
    config = charts.merged(written, {"server": server})
    assert render({"config": config, "image": {"repository": "toolgate"}})
