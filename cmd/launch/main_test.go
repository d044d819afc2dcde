package main

import (
	"os"
	"testing"
)

// asLaunch makes the test's own program run as launch, which starts itself as the no-op server.
const asLaunch = "TEST_RUNS_AS_LAUNCH"

func TestMain(m *testing.M) {
	if os.Getenv(asLaunch) != "" {
		main()
	}
	os.Exit(m.Run())
}
