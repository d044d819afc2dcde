package window

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"
)

// Run is what the table needs to know of a finished run of launch. In the run's JSON file it is the object "holds", beside
// whatever else is there:
//
//	{"holds": {"granted": 3571, "confirmed": 2321, "window_seconds": 120}}
//
// granted counts the holds that were given, a repeated request once, confirmed those of them that became sales, and
// window_seconds is how long a hold lasted. A run that was made to pass more quickly gives the length that its buyers had.
type Run struct {
	HoldsGranted, HoldsConfirmed int
	Window                       time.Duration
}

// runHolds is Run in the file.
type runHolds struct {
	Granted       *int     `json:"granted"`
	Confirmed     *int     `json:"confirmed"`
	WindowSeconds *float64 `json:"window_seconds"`
}

// Load reads the file that a finished run wrote.
func Load(file string) (Run, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return Run{}, err
	}
	var r Run
	if err := json.Unmarshal(text, &r); err != nil {
		return Run{}, fmt.Errorf("%s is not the JSON of a run of launch: %w", file, err)
	}
	return r, nil
}

// UnmarshalJSON reads the whole file's object.
func (r *Run) UnmarshalJSON(text []byte) error {
	var file struct {
		Holds *runHolds `json:"holds"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return err
	}
	h := file.Holds
	switch {
	case h == nil || h.Granted == nil || h.Confirmed == nil || h.WindowSeconds == nil:
		return errors.New("it has no holds.granted, holds.confirmed and holds.window_seconds")
	case *h.Granted < 1:
		return errors.New("no hold was granted, so no share of them was confirmed")
	case *h.Confirmed < 0 || *h.Confirmed > *h.Granted:
		return fmt.Errorf("%d of %d holds cannot have been confirmed", *h.Confirmed, *h.Granted)
	case *h.WindowSeconds <= 0:
		return errors.New("holds.window_seconds must be above 0")
	}
	*r = Run{HoldsGranted: *h.Granted, HoldsConfirmed: *h.Confirmed, Window: time.Duration(*h.WindowSeconds * float64(time.Second))}
	return nil
}

// MarshalJSON writes what UnmarshalJSON reads.
func (r Run) MarshalJSON() ([]byte, error) {
	seconds := r.Window.Seconds()
	return json.Marshal(map[string]runHolds{
		"holds": {Granted: &r.HoldsGranted, Confirmed: &r.HoldsConfirmed, WindowSeconds: &seconds},
	})
}

// Seen is the window of the run with the share that was really paid for.
func (r Run) Seen() Window {
	return Window{Length: r.Window, Completion: float64(r.HoldsConfirmed) / float64(r.HoldsGranted)}
}
