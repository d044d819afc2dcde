package deploy

import (
	"context"
	"net/netip"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
)

// passwords are what people are told to set; they may be any letters and digits.
func passwords() types.Mapping {
	return types.Mapping{"REDIS_PASSWORD": "redismarker", "POSTGRES_PASSWORD": "postgresmarker"}
}

// loadCompose reads the file as Docker does: by the schema, with variables put in and names resolved.
func loadCompose(ctx context.Context, variables types.Mapping) (*types.Project, error) {
	return loader.LoadWithContext(ctx, types.ConfigDetails{
		WorkingDir:  "..",
		ConfigFiles: []types.ConfigFile{{Filename: "../compose.yaml"}},
		Environment: variables,
	})
}

func compose(t *testing.T) *types.Project {
	t.Helper()
	project, err := loadCompose(t.Context(), passwords())
	if err != nil {
		t.Fatal(err)
	}
	return project
}

// TestComposeNeedsPasswords: there are none that everybody knows.
func TestComposeNeedsPasswords(t *testing.T) {
	for missing := range passwords() {
		variables := passwords()
		delete(variables, missing)
		if _, err := loadCompose(t.Context(), variables); err == nil || !strings.Contains(err.Error(), missing) {
			t.Errorf("without %s: %v, want an error that names it", missing, err)
		}
	}
}

// TestComposePorts: only Holdfast can be reached, and only from this machine. The stores have no way out either.
func TestComposePorts(t *testing.T) {
	project := compose(t)
	for name, service := range project.Services {
		if name != "holdfast" && len(service.Ports) > 0 {
			t.Errorf("%s publishes ports", name)
		}
		for _, port := range service.Ports {
			if address, err := netip.ParseAddr(port.HostIP); err != nil || !address.IsLoopback() {
				t.Errorf("%s publishes %d at %q, want a loopback address", name, port.Target, port.HostIP)
			}
		}
		_, open := service.Networks["default"]
		if open != (name == "holdfast") {
			t.Errorf("%s is in the network default: %t", name, open)
		}
	}
	if !project.Networks["stores"].Internal {
		t.Error("the network stores is not internal")
	}
}

// TestComposeConfinement: our containers have no privileges, and roots that they can't write to. The Dockerfile sets the user.
func TestComposeConfinement(t *testing.T) {
	project := compose(t)
	for _, name := range []string{"holdfast", "migrate"} {
		s := project.Services[name]
		if !s.ReadOnly || s.Privileged || s.User != "" {
			t.Errorf("%s: read_only %t, privileged %t, user %q", name, s.ReadOnly, s.Privileged, s.User)
		}
		if strings.Join(s.CapDrop, ",") != "ALL" || strings.Join(s.SecurityOpt, ",") != "no-new-privileges:true" {
			t.Errorf("%s: cap_drop %v, security_opt %v", name, s.CapDrop, s.SecurityOpt)
		}
	}
}

// TestComposeOrder: the tables are made once Postgres answers, and Holdfast serves after that.
func TestComposeOrder(t *testing.T) {
	project := compose(t)
	for _, want := range []struct{ service, after, condition string }{
		{"migrate", "postgres", types.ServiceConditionHealthy},
		{"holdfast", "migrate", types.ServiceConditionCompletedSuccessfully},
		{"holdfast", "redis", types.ServiceConditionHealthy},
	} {
		if got := project.Services[want.service].DependsOn[want.after].Condition; got != want.condition {
			t.Errorf("%s starts when %s is %q, want %q", want.service, want.after, got, want.condition)
		}
	}
	if restart := project.Services["migrate"].Restart; restart != "" {
		t.Errorf("migrate is started again: %s", restart)
	}
	for name, place := range map[string]string{"redis": "/data", "postgres": "/var/lib/postgresql/data"} {
		service := project.Services[name]
		if service.HealthCheck == nil || len(service.HealthCheck.Test) == 0 {
			t.Errorf("%s has no healthcheck", name)
		}
		if len(service.Volumes) != 1 || service.Volumes[0].Type != types.VolumeTypeVolume || service.Volumes[0].Target != place {
			t.Errorf("%s keeps its data in %v, want a volume at %s", name, service.Volumes, place)
		}
	}
}
