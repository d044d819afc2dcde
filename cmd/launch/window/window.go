package window

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Window is how long a hold lasts, and the share of holds that are paid for in that time.
type Window struct {
	Length     time.Duration
	Completion float64 // 0 to 1
}

// UnmarshalText reads "120s=0.65" or "120s=65%".
func (w *Window) UnmarshalText(text []byte) error {
	length, share, ok := strings.Cut(string(text), "=")
	if !ok {
		return fmt.Errorf("%q is not LENGTH=SHARE, such as 120s=0.65", text)
	}
	d, err := time.ParseDuration(length)
	if err != nil || d <= 0 {
		return fmt.Errorf("%q: %q is not a length of time above 0, such as 120s", text, length)
	}
	number, percent := strings.CutSuffix(share, "%")
	completion, err := strconv.ParseFloat(number, 64)
	if percent {
		completion /= 100
	}
	if err != nil || !(completion >= 0 && completion <= 1) { // NaN is not either
		return fmt.Errorf("%q: %q is not a share from 0 to 1, or from 0%% to 100%%", text, share)
	}
	*w = Window{Length: d, Completion: completion}
	return nil
}
