package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-inventory/holdfast/cmd/launch/program"
	"github.com/holdfast-inventory/holdfast/store/local"
	"github.com/holdfast-inventory/holdfast/store/storetest"
)

// TestChartSettings: Holdfast knows every variable that the chart sets. With their values, and with files where the chart mounts
// them, it is ready, has nothing to complain of, and ends in the time that it is given.
func TestChartSettings(t *testing.T) {
	deployment := object[appsv1.Deployment](t, "deployment.yaml", everything())
	holdfast := buildHoldfast(t)
	help, err := exec.CommandContext(t.Context(), holdfast, "serve", "--help").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, help)
	}
	folder := t.TempDir()
	mount(t, folder, deployment.Spec.Template.Spec)
	var settings []string
	for _, variable := range deployment.Spec.Template.Spec.Containers[0].Env {
		name, value := variable.Name, strings.ReplaceAll(variable.Value, "/etc/holdfast", folder)
		if !strings.HasPrefix(name, "HOLDFAST_") {
			continue
		}
		if !strings.Contains(string(help), name) {
			t.Errorf("holdfast serve has no %s", name)
		}
		if strings.HasPrefix(value, folder) {
			if _, err := os.Stat(value); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		// The stores are elsewhere, and without TLS.
		if value != "" && !strings.HasPrefix(name, "HOLDFAST_REDIS_") && !strings.HasSuffix(name, "_ADDR") {
			settings = append(settings, name+"="+value)
		}
	}
	redis, postgres := storetest.NewRedis(t, local.RedisOptions{Persist: true}), storetest.NewPostgres(t, local.PostgresOptions{})
	server, err := program.Serve(t.Context(), holdfast, program.Stores{RedisURL: redis.URL(), PostgresURL: postgres.URL("postgres")},
		program.Settings{Environment: settings})
	if err != nil {
		t.Fatal(err)
	}
	grace := time.Duration(*deployment.Spec.Template.Spec.TerminationGracePeriodSeconds) * time.Second
	if err := server.Stop(grace); err != nil {
		t.Error(err)
	}
	if log := server.Tail(); strings.Contains(log, `"level":"WARN"`) || strings.Contains(log, `"level":"ERROR"`) {
		t.Errorf("the log complains:\n%s", log)
	}
}

// TestChartMigration: the Job has the Secret with Postgres's certificates, none that it does not need, and the URL that is for it.
func TestChartMigration(t *testing.T) {
	pod := object[batchv1.Job](t, "migration.yaml", everything()).Spec.Template.Spec
	folder := t.TempDir()
	mount(t, folder, pod)
	found, err := filepath.Glob(folder + "/*/*")
	if err != nil || len(found) != 1 || found[0] != folder+"/postgres/ca.crt" {
		t.Errorf("files %v, want those of Postgres alone; %v", found, err)
	}
	if from := pod.Containers[0].Env[0].ValueFrom.SecretKeyRef; from.Key != "direct-url" {
		t.Errorf("the URL is from %v", from)
	}
}

// mount makes the files of a pod's Secrets in a folder, as a kubelet would in /etc/holdfast.
func mount(t *testing.T, folder string, pod corev1.PodSpec) {
	t.Helper()
	secrets := makeSecrets(t)
	volumes := map[string]*corev1.SecretVolumeSource{}
	for _, volume := range pod.Volumes {
		volumes[volume.Name] = volume.Secret
	}
	for _, m := range pod.Containers[0].VolumeMounts {
		under, ours := strings.CutPrefix(m.MountPath, "/etc/holdfast/")
		if !ours {
			continue
		}
		volume := volumes[m.Name]
		if !m.ReadOnly || volume == nil || volume.DefaultMode == nil || *volume.DefaultMode != 0o440 {
			t.Fatalf("%s is of the volume %v", m.MountPath, volume)
		}
		secret, keys := secrets[volume.SecretName], volume.Items
		if keys == nil {
			for key := range secret {
				keys = append(keys, corev1.KeyToPath{Key: key, Path: key})
			}
		}
		for _, item := range keys {
			path := filepath.Join(folder, under, item.Path)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, secret[item.Key], 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// makeSecrets makes the Secrets that everything names, by the commands of docs/security.md.
func makeSecrets(t *testing.T) map[string]map[string][]byte {
	t.Helper()
	text, err := os.ReadFile("../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	_, commands, _ := strings.Cut(string(text), "```sh\n")
	commands, _, _ = strings.Cut(commands, "```")
	shell := exec.CommandContext(t.Context(), "bash", "-euc", commands)
	shell.Dir = t.TempDir()
	if out, err := shell.CombinedOutput(); err != nil {
		t.Fatalf("the commands of docs/security.md (they need openssl): %v\n%s", err, out)
	}
	file := func(name string) []byte {
		content, err := os.ReadFile(filepath.Join(shell.Dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return content
	}
	ca, certificate, key := file("ca.crt"), file("server.crt"), file("server.key")
	return map[string]map[string][]byte{
		"certificate": {"tls.crt": certificate, "tls.key": key},
		"shops":       {"ca.crt": ca},
		"callers":     {"callers.json": file("callers.json")},
		"keys":        {"jwks.json": []byte(`{"keys":[]}`)},
		"redis":       {"ca.crt": ca, "tls.crt": certificate, "tls.key": key},
		"postgres":    {"ca.crt": ca},
	}
}
