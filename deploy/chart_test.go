package deploy

import (
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

// values are the least that an installation needs.
func values() map[string]any {
	return map[string]any{
		"stores":  map[string]any{"existingSecret": "stores"},
		"tls":     map[string]any{"existingSecret": "certificate"},
		"callers": map[string]any{"existingSecret": "callers"},
	}
}

// with is the least with one value replaced.
func with(key string, value any) map[string]any {
	all := values()
	all[key] = value
	return all
}

// render renders the chart as helm does, the schema of its values included. Templates that come out empty are left out.
func render(values map[string]any) (map[string]string, error) {
	chart, err := loader.Load("chart")
	if err != nil {
		return nil, err
	}
	options := chartutil.ReleaseOptions{Name: "shop", Namespace: "shop", Revision: 1, IsInstall: true}
	all, err := chartutil.ToRenderValues(chart, values, options, nil)
	if err != nil {
		return nil, err
	}
	rendered, err := engine.Render(chart, all)
	files := map[string]string{}
	for name, text := range rendered {
		if strings.HasSuffix(name, ".yaml") && strings.TrimSpace(text) != "" {
			files[path.Base(name)] = text
		}
	}
	return files, err
}

// object renders one template and decodes it into the type that the API server would. Fields that the type does not have are errors.
func object[T any](t *testing.T, file string, values map[string]any) T {
	t.Helper()
	files, err := render(values)
	if err != nil {
		t.Fatal(err)
	}
	var o T
	if err := yaml.UnmarshalStrict([]byte(files[file]), &o); err != nil {
		t.Fatalf("%s: %v\n%s", file, err, files[file])
	}
	return o
}

// everything switches on what is off by default, and gives every list something.
func everything() map[string]any {
	all := values()
	on := map[string]any{"enabled": true}
	maps.Copy(all, map[string]any{
		"stores": map[string]any{
			"existingSecret": "stores", "migrationURLKey": "direct-url",
			"redisTLS":    map[string]any{"existingSecret": "redis", "clientCertificate": true},
			"postgresTLS": map[string]any{"existingSecret": "postgres"},
		},
		"tls":        map[string]any{"existingSecret": "certificate", "clientCA": map[string]any{"existingSecret": "shops"}},
		"jwt":        map[string]any{"existingSecret": "keys", "issuer": "https://issuer.example", "audience": "holdfast"},
		"reflection": false, "insecure": true,
		"metrics":     map[string]any{"serviceMonitor": on, "prometheusRule": on, "dashboard": on},
		"autoscaling": on,
		"image": map[string]any{
			"digest": "sha256:" + strings.Repeat("a", 64), "pullSecrets": []any{map[string]any{"name": "registry"}},
		},
		"env":          []any{map[string]any{"name": "OTEL_EXPORTER_OTLP_ENDPOINT", "value": "http://collector:4317"}},
		"volumes":      []any{map[string]any{"name": "more", "secret": map[string]any{"secretName": "more"}}},
		"volumeMounts": []any{map[string]any{"name": "more", "mountPath": "/more", "readOnly": true}},
		"networkPolicy": map[string]any{"clients": []any{map[string]any{
			"namespaceSelector": map[string]any{"matchLabels": map[string]any{"team": "checkout"}},
		}}},
		"podAnnotations": map[string]any{"a": "b"}, "podLabels": map[string]any{"c": "d"},
		"nodeSelector": map[string]any{"e": "f"}, "priorityClassName": "high",
		"tolerations": []any{map[string]any{"key": "g", "operator": "Exists"}},
	})
	return all
}

func TestChartLint(t *testing.T) {
	for _, message := range lint.All("chart", values(), "shop", true).Messages {
		if message.Severity > 1 { // an icon is recommended
			t.Error(message)
		}
	}
}

// TestChartDecodes: whatever is switched on, each file is an object that the API server knows, and no template is forgotten here.
func TestChartDecodes(t *testing.T) {
	for name, values := range map[string]map[string]any{"least": values(), "everything": everything()} {
		t.Run(name, func(t *testing.T) {
			files, err := render(values)
			if err != nil {
				t.Fatal(err)
			}
			known := map[string]any{
				"deployment.yaml": &appsv1.Deployment{}, "service.yaml": &corev1.Service{}, "serviceaccount.yaml": &corev1.ServiceAccount{},
				"poddisruptionbudget.yaml": &policyv1.PodDisruptionBudget{}, "migration.yaml": &batchv1.Job{},
				"horizontalpodautoscaler.yaml": &autoscalingv2.HorizontalPodAutoscaler{}, "networkpolicy.yaml": &networkingv1.NetworkPolicy{},
				"servicemonitor.yaml": &monitoringv1.ServiceMonitor{}, "prometheusrule.yaml": &monitoringv1.PrometheusRule{},
				"dashboard.yaml": &corev1.ConfigMap{},
			}
			if name == "everything" && len(files) != len(known) {
				t.Errorf("%d objects, want %d", len(files), len(known))
			}
			for file, text := range files {
				if known[file] == nil {
					t.Errorf("%s is not checked", file)
				} else if err := yaml.UnmarshalStrict([]byte(text), known[file]); err != nil {
					t.Errorf("%s: %v\n%s", file, err, text)
				}
			}
		})
	}
}

// TestChartValues: what would go wrong later is refused at once.
func TestChartValues(t *testing.T) {
	stores := values()["stores"]
	keys := map[string]any{"jwksURL": "https://issuer.example/keys", "issuer": "i"}
	for name, c := range map[string]struct {
		values map[string]any
		want   string
	}{
		"no secret":            {with("stores", map[string]any{}), "stores.existingSecret"},
		"nothing more":         {map[string]any{"stores": stores}, "tls.existingSecret"},
		"plain text":           {with("tls", map[string]any{}), "tls.existingSecret"},
		"callers not known":    {with("callers", map[string]any{}), "callers.existingSecret"},
		"a CA for nothing":     {map[string]any{"stores": stores, "insecure": true, "tls": map[string]any{"clientCA": map[string]any{"existingSecret": "a"}}}, "tls.clientCA"},
		"tokens for nobody":    {with("jwt", keys), "audience"},
		"an issuer of no keys": {with("jwt", map[string]any{"issuer": "i"}), "jwksURL"},
		"keys in plain text":   {with("jwt", map[string]any{"jwksURL": "http://issuer.example"}), "jwksURL"},
		"misspelt":             {with("replica", 3), "replica"},
		"a file twice":         {with("env", []any{map[string]any{"name": "HOLDFAST_TLS_CERT", "value": "/csi/tls.crt"}}), "HOLDFAST_TLS_CERT"},
		"a URL twice":          {with("env", []any{map[string]any{"name": "HOLDFAST_REDIS_URL", "valueFrom": map[string]any{}}}), "stores.existingSecret"},
		"nobody may be moved":  {with("podDisruptionBudget", map[string]any{"maxUnavailable": 0}), "maxUnavailable"},
		"least above most":     {with("autoscaling", map[string]any{"enabled": true, "minReplicas": 11}), "minReplicas"},
		"a share of nothing": {
			map[string]any{
				"stores": stores, "insecure": true, "autoscaling": map[string]any{"enabled": true},
				"resources": map[string]any{"requests": map[string]any{"cpu": nil}},
			}, "requests.cpu",
		},
		"a setting twice":       {with("env", []any{map[string]any{"name": "HOLDFAST_DURABILITY", "value": "fsync"}}), "set durability"},
		"password as a value":   {with("env", []any{map[string]any{"name": "HOLDFAST_REDIS_URL", "value": "redis://:x@r"}}), "env"},
		"no time to drain":      {with("drainDelaySeconds", 0), "drainDelaySeconds"},
		"durability not known":  {with("durability", "all"), "durability"},
		"interval that is none": {with("metrics", map[string]any{"serviceMonitor": map[string]any{"interval": "often"}}), "interval"},
	} {
		if _, err := render(c.values); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error that names %s", name, err, c.want)
		}
	}
}

// TestChartInsecure: only who says so gets a server that knows nobody.
func TestChartInsecure(t *testing.T) {
	insecure := map[string]any{"insecure": true, "stores": map[string]any{"existingSecret": "stores"}}
	others := values()
	delete(others, "tls")
	others["env"] = []any{map[string]any{"name": "HOLDFAST_TLS_CERT", "value": "/csi/tls.crt"}}
	for name, c := range map[string]struct {
		values map[string]any
		want   bool
	}{
		"on purpose": {insecure, true}, "guarded": {values(), false}, "guarded by files from elsewhere": {others, false},
	} {
		env := environment(object[appsv1.Deployment](t, "deployment.yaml", c.values))
		if _, is := env["HOLDFAST_INSECURE"]; is != c.want {
			t.Errorf("%s: insecure %t", name, is)
		}
	}
}

// environment is a Deployment's variables that have values.
func environment(d appsv1.Deployment) map[string]string {
	all := map[string]string{}
	for _, variable := range d.Spec.Template.Spec.Containers[0].Env {
		if variable.Value != "" {
			all[variable.Name] = variable.Value
		}
	}
	return all
}

// TestChartPods: pods are as restricted as Kubernetes' restricted profile asks, and more; they have no token, and are not given
// the variables of Services, which Holdfast would take for settings.
func TestChartPods(t *testing.T) {
	for name, pod := range map[string]corev1.PodSpec{
		"deployment": object[appsv1.Deployment](t, "deployment.yaml", everything()).Spec.Template.Spec,
		"migration":  object[batchv1.Job](t, "migration.yaml", everything()).Spec.Template.Spec,
	} {
		if pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken {
			t.Errorf("%s: has a token", name)
		}
		if pod.EnableServiceLinks == nil || *pod.EnableServiceLinks {
			t.Errorf("%s: is given the variables of Services", name)
		}
		s := pod.SecurityContext
		if s == nil || s.RunAsNonRoot == nil || !*s.RunAsNonRoot || s.RunAsUser == nil || *s.RunAsUser != 65532 ||
			s.SeccompProfile == nil || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
			t.Errorf("%s: security context %v", name, s)
		}
		for _, container := range pod.Containers {
			c := container.SecurityContext
			if c == nil || c.ReadOnlyRootFilesystem == nil || !*c.ReadOnlyRootFilesystem ||
				c.AllowPrivilegeEscalation == nil || *c.AllowPrivilegeEscalation ||
				c.Capabilities == nil || !slices.Equal(c.Capabilities.Drop, []corev1.Capability{"ALL"}) {
				t.Errorf("%s: security context of %s: %v", name, container.Name, c)
			}
			if container.Resources.Requests.Memory().IsZero() || container.Resources.Limits.Memory().IsZero() {
				t.Errorf("%s: %s has no bounds of memory", name, container.Name)
			}
			for _, variable := range container.Env {
				if strings.HasSuffix(variable.Name, "_URL") && (variable.Value != "" || variable.ValueFrom.SecretKeyRef.Name != "stores") {
					t.Errorf("%s: %s is not from the Secret", name, variable.Name)
				}
			}
		}
	}
}

// TestChartProbes: only readiness can take a pod out of service, no probe asks for more than the process itself knows,
// a pod that has started is restarted only after a minute without an answer, and out of service after half of that, also if it hangs:
// the next probe then waits for the end of the last one's time.
func TestChartProbes(t *testing.T) {
	c := object[appsv1.Deployment](t, "deployment.yaml", values()).Spec.Template.Spec.Containers[0]
	for probe, path := range map[*corev1.Probe]string{c.LivenessProbe: "/livez", c.StartupProbe: "/livez", c.ReadinessProbe: "/readyz"} {
		if probe == nil || probe.HTTPGet == nil || probe.HTTPGet.Path != path || probe.HTTPGet.Port.String() != "http" {
			t.Errorf("probe of %s: %v", path, probe)
		}
	}
	l := c.LivenessProbe
	if l.PeriodSeconds*l.FailureThreshold < 60 {
		t.Errorf("liveness gives up too soon: %v", l)
	}
	if r := c.ReadinessProbe; r.PeriodSeconds*r.FailureThreshold < 30 || r.TimeoutSeconds < 5 {
		t.Errorf("readiness gives up too soon on a busy server: %v", r)
	} else if hangs := max(r.PeriodSeconds, r.TimeoutSeconds) * r.FailureThreshold; 2*hangs > l.PeriodSeconds*l.FailureThreshold {
		t.Errorf("a pod that hangs is out of service after %d s, and restarted by %v", hangs, l)
	}
}

// TestChartRuntime: Go is told of what the container asks for, and the user's own words come first.
func TestChartRuntime(t *testing.T) {
	type quantities = map[string]any
	for name, c := range map[string]struct {
		requests, limits, env quantities
		cpu, memory           string
	}{
		"as shipped":         {cpu: "requests.cpu", memory: "921MiB"},
		"less memory":        {limits: quantities{"memory": "512Mi"}, cpu: "requests.cpu", memory: "460MiB"},
		"in another unit":    {limits: quantities{"memory": "2G"}, cpu: "requests.cpu"},
		"a limit of cpu":     {limits: quantities{"cpu": "2"}, memory: "921MiB"}, // Go looks at that itself
		"no request":         {requests: quantities{"cpu": nil}, memory: "921MiB"},
		"as the user wishes": {env: quantities{"GOMAXPROCS": "4", "GOMEMLIMIT": "1GiB"}, cpu: "4", memory: "1GiB"},
	} {
		resources := quantities{}
		if c.requests != nil {
			resources["requests"] = c.requests
		}
		if c.limits != nil {
			resources["limits"] = c.limits
		}
		all := with("resources", resources)
		var more []any
		for name, value := range c.env {
			more = append(more, quantities{"name": name, "value": value})
		}
		all["env"] = more
		got := map[string]string{}
		for _, variable := range object[appsv1.Deployment](t, "deployment.yaml", all).Spec.Template.Spec.Containers[0].Env {
			if _, again := got[variable.Name]; again {
				t.Errorf("%s: %s is there twice", name, variable.Name)
			}
			got[variable.Name] = variable.Value
			if from := variable.ValueFrom; from != nil && from.ResourceFieldRef != nil {
				got[variable.Name] = from.ResourceFieldRef.Resource
			}
		}
		if got["GOMAXPROCS"] != c.cpu || got["GOMEMLIMIT"] != c.memory {
			t.Errorf("%s: GOMAXPROCS %q and GOMEMLIMIT %q, want %q and %q", name, got["GOMAXPROCS"], got["GOMEMLIMIT"], c.cpu, c.memory)
		}
	}
}

// TestChartRollingUpdate: a new pod is ready before an old one goes, and that one has the time it needs to stop.
func TestChartRollingUpdate(t *testing.T) {
	for _, drain := range []int{5, 60} {
		deployment := object[appsv1.Deployment](t, "deployment.yaml", with("drainDelaySeconds", drain))
		spec := deployment.Spec
		update := spec.Strategy.RollingUpdate
		if update == nil || update.MaxUnavailable.IntValue() != 0 || update.MaxSurge.IntValue() < 1 {
			t.Errorf("rolling update: %v", update)
		}
		// Calls, confirms under way, background work and telemetry: cmd/holdfast has the bounds.
		need := int64(drain + 10 + 5 + 3 + 2)
		if grace := spec.Template.Spec.TerminationGracePeriodSeconds; grace == nil || *grace <= need {
			t.Errorf("with %d s of draining: grace %v, must be above %d", drain, grace, need)
		}
		// The server drains by itself, from SIGTERM on. A preStop would take from the grace, and put off that it says so.
		if env := environment(deployment); env["HOLDFAST_DRAIN_DELAY"] != strconv.Itoa(drain)+"s" || env["HOLDFAST_STOP_TIMEOUT"] != "10s" {
			t.Errorf("the server is told to drain for %s and to stop within %s", env["HOLDFAST_DRAIN_DELAY"], env["HOLDFAST_STOP_TIMEOUT"])
		}
		if spec.Template.Spec.Containers[0].Lifecycle != nil {
			t.Error("something is done before SIGTERM")
		}
		// The DNS resolver of grpc-go asks at most once in 30 s.
		if spec.MinReadySeconds < 30 {
			t.Errorf("the next one goes %d s after the last has come", spec.MinReadySeconds)
		}
	}
}

// TestChartSelectors: everything that selects pods selects the servers, and not the migration.
func TestChartSelectors(t *testing.T) {
	all := everything()
	deployment := object[appsv1.Deployment](t, "deployment.yaml", all)
	server := deployment.Spec.Template.Labels
	migration := object[batchv1.Job](t, "migration.yaml", all).Spec.Template.Labels
	service := object[corev1.Service](t, "service.yaml", all)
	selectors := map[string]map[string]string{
		"deployment":    deployment.Spec.Selector.MatchLabels,
		"service":       service.Spec.Selector,
		"disruptions":   object[policyv1.PodDisruptionBudget](t, "poddisruptionbudget.yaml", all).Spec.Selector.MatchLabels,
		"networkpolicy": object[networkingv1.NetworkPolicy](t, "networkpolicy.yaml", all).Spec.PodSelector.MatchLabels,
	}
	for _, spread := range deployment.Spec.Template.Spec.TopologySpreadConstraints {
		selectors[spread.TopologyKey] = spread.LabelSelector.MatchLabels
	}
	if len(selectors) != 6 {
		t.Errorf("%d selectors, want 6", len(selectors))
	}
	for name, selector := range selectors {
		if !selects(selector, server) || selects(selector, migration) {
			t.Errorf("%s selects %v", name, selector)
		}
	}
	target := object[autoscalingv2.HorizontalPodAutoscaler](t, "horizontalpodautoscaler.yaml", all).Spec.ScaleTargetRef
	if target.Name != deployment.Name || target.Kind != "Deployment" || deployment.Spec.Replicas != nil {
		t.Errorf("the autoscaler scales %v, and the deployment sets %v replicas", target, deployment.Spec.Replicas)
	}
}

func selects(selector, labels map[string]string) bool {
	for key, value := range selector {
		if labels[key] != value {
			return false
		}
	}
	return len(selector) > 0
}

// TestChartPorts: every port that is named is a port of the container, and clients find all replicas.
func TestChartPorts(t *testing.T) {
	ports := map[string]int32{}
	for _, port := range object[appsv1.Deployment](t, "deployment.yaml", values()).Spec.Template.Spec.Containers[0].Ports {
		ports[port.Name] = port.ContainerPort
	}
	if ports["grpc"] != 50051 || ports["http"] != 9464 {
		t.Errorf("ports: %v", ports)
	}
	service := object[corev1.Service](t, "service.yaml", values()).Spec
	if service.ClusterIP != corev1.ClusterIPNone {
		t.Errorf("the service has an address of its own: %s", service.ClusterIP)
	}
	for _, port := range service.Ports {
		if ports[port.TargetPort.String()] != port.Port {
			t.Errorf("service port %s leads to %s", port.Name, port.TargetPort.String())
		}
	}
	for _, rule := range object[networkingv1.NetworkPolicy](t, "networkpolicy.yaml", values()).Spec.Ingress {
		if len(rule.From) == 0 || len(rule.Ports) != 1 || ports[rule.Ports[0].Port.String()] == 0 {
			t.Errorf("network policy: %v", rule)
		}
	}
}
