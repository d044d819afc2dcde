package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
)

// facts are what figures depend on.
type facts struct {
	CPU      string `json:"cpu"`
	Cores    int    `json:"cores"`
	Kernel   string `json:"kernel"`
	Go       string `json:"go"`
	Redis    string `json:"redis"`
	Postgres string `json:"postgres"`
	GOGC     string `json:"gogc"`       // of a server, as it ships
	MaxProcs string `json:"gomaxprocs"` // likewise
}

// readFacts asks servers that it starts for that.
func (b *bench) readFacts(ctx context.Context) (f facts, err error) {
	p, err := open(ctx, b.binary("holdfast"), 1)
	if err != nil {
		return facts{}, err
	}
	defer func() { err = errors.Join(err, p.close()) }() //nolint:contextcheck // stopping has its own time
	f = facts{CPU: cpuModel(), Cores: runtime.NumCPU(), Kernel: kernel(), Go: strings.TrimPrefix(runtime.Version(), "go")}
	if f.Redis, err = redisVersion(ctx, p.redis.Addr()); err != nil {
		return facts{}, err
	}
	if f.Postgres, err = postgresVersion(ctx, p.postgres.URL("postgres")); err != nil {
		return facts{}, err
	}
	metrics, err := readMetrics(ctx, p.servers[0].HTTPAddr())
	f.GOGC, f.MaxProcs = metrics["go_gc_gogc_percent"], metrics["go_sched_gomaxprocs_threads"]
	return f, err
}

// cpuModel and kernel are known on Linux only.
func cpuModel() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	found := regexp.MustCompile(`(?m)^model name\s*: (.*)$`).FindSubmatch(text)
	if found == nil {
		return runtime.GOARCH
	}
	return string(found[1])
}

func kernel() string {
	text, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return runtime.GOOS
	}
	return "Linux " + strings.TrimSpace(string(text))
}

// revision is that of the sources, with -dirty behind it if they are not as they were committed. Documents, which are written
// after each experiment, do not count.
func revision(ctx context.Context) string {
	git := func(args ...string) string {
		text, err := exec.CommandContext(ctx, "git", args...).Output()
		if err != nil {
			return "" // no repository, or no git
		}
		return strings.TrimSpace(string(text))
	}
	commit := git("describe", "--always", "--exclude=*")
	if git("status", "--porcelain", "--", ".", ":!*.md", ":!docs/performance.json") != "" {
		commit += "-dirty"
	}
	return commit
}

func redisVersion(ctx context.Context, addr string) (string, error) {
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	info, err := client.InfoMap(ctx, "server").Result()
	if err != nil {
		return "", fmt.Errorf("version of Redis: %w", err)
	}
	return info["Server"]["redis_version"], nil
}

func postgresVersion(ctx context.Context, url string) (version string, err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return "", fmt.Errorf("version of Postgres: %w", err)
	}
	defer conn.Close(ctx)
	if err := conn.QueryRow(ctx, "SHOW server_version").Scan(&version); err != nil {
		return "", fmt.Errorf("version of Postgres: %w", err)
	}
	return version, nil
}

// readMetrics reads the metrics without labels of a server.
func readMetrics(ctx context.Context, addr string) (map[string]string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/metrics", http.NoBody)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	return parseMetrics(answer.Body)
}

func parseMetrics(text io.Reader) (map[string]string, error) {
	found := map[string]string{}
	lines := bufio.NewScanner(text)
	for lines.Scan() {
		if name, value, ok := strings.Cut(lines.Text(), " "); ok && name != "#" {
			found[name] = value
		}
	}
	return found, lines.Err()
}
