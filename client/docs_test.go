package client_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
)

func read(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// TestGuideHasCheckout: the checkout of docs/checkout.md is the one of the example, which is run, and short.
func TestGuideHasCheckout(t *testing.T) {
	_, example, _ := strings.Cut(read(t, "example_checkout_test.go"), "// order is")
	example, _, _ = strings.Cut(example, "\n// A checkout:")
	_, guide, _ := strings.Cut(read(t, "../docs/checkout.md"), "<!-- checkout:begin -->\n")
	guide, _, _ = strings.Cut(guide, "<!-- checkout:end -->")
	if want := "```go\n// order is" + example + "```\n"; guide != want {
		t.Errorf("between the marks there has to be:\n%s", want)
	}
	code := regexp.MustCompile(`(?m)^\t*[^\t/\n].*$`).FindAllString("//"+example, -1)
	if len(code) == 0 || len(code) >= 40 {
		t.Errorf("it has %d lines of code, want less than 40", len(code))
	}
}

// TestGuideHasEveryReason: docs/checkout.md says of each whether it is tried again, as the package does it.
func TestGuideHasEveryReason(t *testing.T) {
	guide := read(t, "../docs/checkout.md")
	for number, name := range pb.ErrorReason_name {
		if number == 0 {
			continue
		}
		reason := strings.TrimPrefix(name, "ERROR_REASON_")
		row := regexp.MustCompile("(?m)^\\| [^|]*`" + reason + "`[^|]*\\|[^|]*\\| (yes|no) \\|").FindStringSubmatch(guide)
		if row == nil {
			t.Errorf("%s has no row", reason)
		} else if (row[1] == "yes") != again[reason] {
			t.Errorf("%s: again? %s", reason, row[1])
		}
	}
}
