package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
)

// machineFacts say on what the faults were injected, and how busy it was with other work.
func machineFacts() string {
	text := fmt.Sprintf("%s/%s, %d processors, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version())
	if loads, err := os.ReadFile("/proc/loadavg"); err == nil {
		text += ", load average before the run " + strings.Join(strings.Fields(string(loads))[:3], " ")
	}
	return text
}
