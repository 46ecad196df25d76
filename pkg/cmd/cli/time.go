package cli

import (
	"regexp"
	"strconv"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
)

var relativeTime = regexp.MustCompile(`^now(?:-(\d{1,6})([smhdw]))?$`)

// ParseTime reads RFC 3339, or a time relative to now: now, now-24h (s, m, h, d, w).
func ParseTime(text string, now time.Time) (time.Time, error) {
	if m := relativeTime.FindStringSubmatch(text); m != nil {
		n, _ := strconv.Atoi(m[1])
		unit := map[string]time.Duration{"": 0, "s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour,
			"w": 7 * 24 * time.Hour}[m[2]]
		return now.Add(-time.Duration(n) * unit), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, Usage("%q is not a time: use RFC 3339 such as 2026-05-14T00:00:00Z, or now-24h (s, m, h, d, w)",
			text)
	}
	return t, nil
}

// ParseWindow reads the two ends of a window.
func ParseWindow(from, to string, now time.Time) (backend.TimeRange, error) {
	a, err := ParseTime(from, now)
	if err != nil {
		return backend.TimeRange{}, err
	}
	b, err := ParseTime(to, now)
	if err != nil {
		return backend.TimeRange{}, err
	}
	return backend.TimeRange{From: a, To: b}, nil
}
