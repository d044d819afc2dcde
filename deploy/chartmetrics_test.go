package deploy

import (
	"encoding/json"
	"os"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// TestChartMetrics: the operator finds the Service, at a port that it has.
func TestChartMetrics(t *testing.T) {
	service := object[corev1.Service](t, "service.yaml", everything())
	monitor := object[monitoringv1.ServiceMonitor](t, "servicemonitor.yaml", everything())
	if selector := monitor.Spec.Selector.MatchLabels; !selects(selector, service.Labels) {
		t.Errorf("%v does not select the service, which has %v", selector, service.Labels)
	}
	found := false
	for _, port := range service.Spec.Ports {
		found = found || len(monitor.Spec.Endpoints) == 1 && port.Name == monitor.Spec.Endpoints[0].Port
	}
	if !found {
		t.Errorf("endpoints %v, and the service has %v", monitor.Spec.Endpoints, service.Spec.Ports)
	}
}

// TestChartAlerts: the rule has what the file has, with what is Prometheus's own template left as it is.
func TestChartAlerts(t *testing.T) {
	text, err := os.ReadFile("chart/files/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file monitoringv1.PrometheusRuleSpec
	if err := yaml.UnmarshalStrict(text, &file); err != nil {
		t.Fatalf("files/alerts.yaml: %v", err)
	}
	rule := object[monitoringv1.PrometheusRule](t, "prometheusrule.yaml", everything())
	want, got := asJSON(t, file), asJSON(t, rule.Spec)
	if len(file.Groups) == 0 || want != got {
		t.Errorf("the rule has\n%s\nwant\n%s", got, want)
	}
}

// TestChartDashboard: Grafana's sidecar finds the dashboard, and Kubernetes keeps it, at most 1 MiB.
func TestChartDashboard(t *testing.T) {
	dashboard := object[corev1.ConfigMap](t, "dashboard.yaml", everything())
	if dashboard.Labels["grafana_dashboard"] != "1" {
		t.Errorf("labels %v", dashboard.Labels)
	}
	text := dashboard.Data["holdfast.json"]
	if !json.Valid([]byte(text)) || len(text) > 1<<20 {
		t.Errorf("%d bytes, valid JSON: %t", len(text), json.Valid([]byte(text)))
	}
}

func asJSON(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
