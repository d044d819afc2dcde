package figures

import "testing"

func TestFigures(t *testing.T) {
	for want, got := range map[string]string{
		"0": Count(0), "999": Count(999), "1,000": Count(int64(1000)), "-12,345": Count(-12_345), "1,234,568": Count(1_234_567.8),
		"0.04": Millis(0.041), "9.99": Millis(9.99), "12.3": Millis(12.34), "1,235": Millis(1234.5),
		"12": Short(12), "1.5": Short(1.5), "0.33": Short(1.0 / 3),
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
