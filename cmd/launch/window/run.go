package window

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"
)

// Run is what the table needs to know of a finished run of launch.
type Run struct {
	Launch Launch
	// HoldsGranted counts the holds that were given, a repeated request once, HoldsConfirmed those of them that became sales.
	HoldsGranted, HoldsConfirmed int64
	// Window is how long a hold lasted for the run's buyers. In a run that was made to pass more quickly it was shorter.
	Window time.Duration
	Scale  float64 // part of Window that it lasted in the run
	// Completion is the share of buyers who were to pay.
	Completion float64
	Unserved   Unserved
}

// runFile is what is read of a run's JSON file. Package result writes it.
type runFile struct {
	Interrupted bool `json:"interrupted"`
	Settings    *struct {
		Requests   int64   `json:"requests"`
		Seconds    float64 `json:"seconds"`
		Capacity   int64   `json:"capacity"`
		TimeScale  float64 `json:"time_scale"`
		Two        float64 `json:"two"` // share of requests that ask for two items; the others ask for one
		Completion float64 `json:"completion"`
	} `json:"settings"`
	Holds *struct {
		Granted       int64   `json:"granted"`
		Confirmed     int64   `json:"confirmed"`
		WindowSeconds float64 `json:"window_seconds"`
	} `json:"holds"`
	Served struct {
		Buyers     int64 `json:"buyers"`
		Told       int64 `json:"told"`
		Paying     int64 `json:"paying"`
		PayingTold int64 `json:"paying_told"`
	} `json:"served"`
	Outcomes []struct {
		Name  string `json:"name"`
		Call  string `json:"call"`
		Why   string `json:"why"`
		Calls int64  `json:"calls"`
	} `json:"outcomes"`
}

// Load reads the file that a finished run wrote.
func Load(file string) (Run, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return Run{}, err
	}
	var f runFile
	if err := json.Unmarshal(text, &f); err != nil {
		return Run{}, fmt.Errorf("%s is not the JSON of a run of launch: %w", file, err)
	}
	if err := f.check(); err != nil {
		return Run{}, fmt.Errorf("%s is not the JSON of a run of launch that can be used: %w", file, err)
	}
	s, h := f.Settings, f.Holds
	return Run{
		Launch:       Launch{Capacity: s.Capacity, Requests: s.Requests, Duration: ofSeconds(s.Seconds), Items: 1 + s.Two},
		HoldsGranted: h.Granted, HoldsConfirmed: h.Confirmed, Window: ofSeconds(h.WindowSeconds), Scale: s.TimeScale, Completion: s.Completion,
		Unserved: f.unserved(),
	}, nil
}

func ofSeconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func (f *runFile) check() error {
	s, h := f.Settings, f.Holds
	switch {
	case s == nil || h == nil:
		return errors.New("it has no settings and holds")
	case f.Interrupted:
		return errors.New("the run was interrupted before its buyers could pay")
	case s.Requests < 1 || s.Capacity < 1 || s.Seconds <= 0 || s.Two < 0 || s.Two > 1:
		return errors.New("settings.requests, capacity and seconds must be above 0, and two from 0 to 1")
	case h.Granted < 1:
		return errors.New("no hold was granted, so no share of them was confirmed")
	case h.Confirmed < 0 || h.Confirmed > h.Granted:
		return fmt.Errorf("%d of %d holds cannot have been confirmed", h.Confirmed, h.Granted)
	case h.WindowSeconds <= 0:
		return errors.New("holds.window_seconds must be above 0")
	default:
		return nil
	}
}

// Seen is the window of the run with the share that was paid for.
func (r Run) Seen() Window {
	return Window{Length: r.Window, Completion: float64(r.HoldsConfirmed) / float64(r.HoldsGranted)}
}
