package storetest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-inventory/holdfast/store/local"
)

// Database makes an empty database for this test in the shared Postgres and returns its URL. It is dropped at the
// test's end, whoever is still connected.
func Database(t testing.TB) string {
	t.Helper()
	return newDatabase(t, Postgres(t), "template1")
}

// MigratedDatabase is Database after migrate. migrate runs once in a test binary, on a template that is then copied, so a
// test pays some 30 ms whatever the number of migrations. It must leave no connection open, and be the same
// function in each call: functions are told apart by their code, so closures of one line count as one.
func MigratedDatabase(t testing.TB, migrate func(ctx context.Context, url string) error) string {
	t.Helper()
	p := Postgres(t)
	source := templateOf(migrate)
	source.once.Do(func() { source.err = source.make(p, migrate) })
	if source.err != nil {
		t.Fatalf("storetest: migrate the template database: %v", source.err)
	}
	return newDatabase(t, p, source.name)
}

// template is a migrated database that tests get copies of.
type template struct {
	once sync.Once
	name string
	err  error
}

func templateOf(migrate func(ctx context.Context, url string) error) *template {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	key := reflect.ValueOf(migrate).Pointer()
	if shared.template == nil {
		shared.template = make(map[uintptr]*template)
	}
	if shared.template[key] == nil {
		shared.template[key] = &template{name: fmt.Sprintf("template_%d", len(shared.template)+1)}
	}
	return shared.template[key]
}

// make does not use a test's context: the template is for the tests after it, too.
func (s *template) make(p *local.Postgres, migrate func(ctx context.Context, url string) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if err := p.CreateDatabase(ctx, s.name); err != nil {
		return err
	}
	return migrate(ctx, p.URL(s.name))
}

func newDatabase(t testing.TB, p *local.Postgres, source string) string {
	t.Helper()
	name := uniqueName(t, "_")
	copyOf := fmt.Sprintf("CREATE DATABASE %s TEMPLATE %s", quote(name), quote(source))
	if err := administer(t.Context(), p, copyOf); err != nil {
		t.Fatalf("storetest: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), stopTimeout) // the test's own is over
		defer cancel()
		if err := administer(ctx, p, fmt.Sprintf("DROP DATABASE %s WITH (FORCE)", quote(name))); err != nil {
			t.Errorf("storetest: %v", err)
		}
	})
	return p.URL(name)
}

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }

// administer runs one statement outside of the tests' databases.
func administer(ctx context.Context, p *local.Postgres, statement string) (err error) {
	conn, err := pgx.Connect(ctx, p.URL("postgres"))
	if err != nil {
		return fmt.Errorf("%s: %w", statement, err)
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	if _, err := conn.Exec(ctx, statement); err != nil {
		return fmt.Errorf("%s: %w", statement, err)
	}
	return nil
}
