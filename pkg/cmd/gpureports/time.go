package main

import (
	"regexp"
	"strconv"
	"time"
)

var relativeTime = regexp.MustCompile(`^now(?:-(\d{1,6})([smhdw]))?$`)

// parseTime reads RFC 3339, or a time relative to now: now, now-24h (s, m, h, d, w).
func parseTime(text string, now time.Time) (time.Time, error) {
	if m := relativeTime.FindStringSubmatch(text); m != nil {
		n, _ := strconv.Atoi(m[1])
		unit := map[string]time.Duration{"": 0, "s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour,
			"w": 7 * 24 * time.Hour}[m[2]]
		return now.Add(-time.Duration(n) * unit), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, usage("%q is no time: use RFC 3339 such as 2026-05-14T00:00:00Z, or now-24h (s, m, h, d, w)",
			text)
	}
	return t, nil
}
