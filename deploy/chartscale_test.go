package deploy

import (
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"
	"sigs.k8s.io/yaml"
)

// cluster is what helm finds where it installs: Deployments alone.
type cluster struct{ dynamic.Interface }

// GetClientFor implements engine.ClientProvider.
func (c cluster) GetClientFor(string, string) (dynamic.NamespaceableResourceInterface, bool, error) {
	return c.Resource(appsv1.SchemeGroupVersion.WithResource("deployments")), true, nil
}

// TestChartKeepsReplicas: when autoscaling is turned on, or the release upgraded, there stay as many as there are, and not one.
func TestChartKeepsReplicas(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := appsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	seven := int32(7)
	running := &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Name: "shop-holdfast", Namespace: "shop"}, Spec: appsv1.DeploymentSpec{Replicas: &seven},
	}
	three := int32(3)
	for name, c := range map[string]struct {
		scaled bool
		there  []runtime.Object
		want   *int32
	}{
		"turned on":    {true, []runtime.Object{running}, &seven},
		"installed":    {true, nil, nil},
		"not for us":   {false, []runtime.Object{running}, &three},
		"first, fixed": {false, nil, &three},
	} {
		chart, err := loader.Load("chart")
		if err != nil {
			t.Fatal(err)
		}
		all, err := chartutil.ToRenderValues(chart, with("autoscaling", map[string]any{"enabled": c.scaled}),
			chartutil.ReleaseOptions{Name: "shop", Namespace: "shop", IsUpgrade: true}, nil)
		if err != nil {
			t.Fatal(err)
		}
		files, err := engine.RenderWithClientProvider(chart, all, cluster{fake.NewSimpleDynamicClient(scheme, c.there...)})
		if err != nil {
			t.Fatal(err)
		}
		var got appsv1.Deployment
		if err := yaml.UnmarshalStrict([]byte(files["holdfast/templates/deployment.yaml"]), &got); err != nil {
			t.Fatal(err)
		}
		if (got.Spec.Replicas == nil) != (c.want == nil) || c.want != nil && *got.Spec.Replicas != *c.want {
			t.Errorf("%s: %v replicas, want %v", name, got.Spec.Replicas, c.want)
		}
	}
}
