package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/stretchr/testify/require"
)

func TestParseTime(t *testing.T) {
	now := time.Date(2026, 3, 8, 12, 0, 0, 500, time.UTC)
	for text, want := range map[string]time.Time{
		"now":                         now,
		"now-90s":                     now.Add(-90 * time.Second),
		"now-5m":                      now.Add(-5 * time.Minute),
		"now-24h":                     now.Add(-24 * time.Hour),
		"now-7d":                      now.Add(-7 * 24 * time.Hour),
		"now-2w":                      now.Add(-14 * 24 * time.Hour),
		"now-1M":                      time.Date(2026, 2, 8, 12, 0, 0, 500, time.UTC),
		"now-1M/M":                    time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC),
		"now/M":                       time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC),
		"now-1y/y":                    time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC),
		"now/w":                       time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC), // the day is a Sunday
		"now-1d/d":                    time.Date(2026, 3, 7, 0, 0, 0, 0, time.UTC),
		"now/h":                       time.Date(2026, 3, 8, 12, 0, 0, 0, time.UTC),
		"now-1w/w":                    time.Date(2026, 2, 23, 0, 0, 0, 0, time.UTC),
		"now/y":                       time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		"2026-03-05":                  time.Date(2026, 3, 5, 0, 0, 0, 0, time.UTC),
		"2026-03-08T06:00:00-06:00":   time.Date(2026, 3, 8, 12, 0, 0, 0, time.UTC),
		"2026-03-08T12:00:00.123456Z": time.Date(2026, 3, 8, 12, 0, 0, 123456000, time.UTC),
	} {
		got, err := ParseTime(text, now)
		require.NoError(t, err, text)
		require.True(t, want.Equal(got), "%s: want %v, got %v", text, want, got)
	}
	end, err := ParseTime("now-1M", time.Date(2026, 3, 31, 1, 2, 3, 4, time.UTC))
	require.NoError(t, err)
	require.Equal(t, time.Date(2026, 2, 28, 1, 2, 3, 4, time.UTC), end, "a month before the end of March")
	for _, text := range []string{"", "now-", "now+1h", "now-1", "now-1q", "now/q", "2026-02-30", "12:00"} {
		_, err := ParseTime(text, now)
		require.ErrorContains(t, err, "RFC 3339", text)
	}
}

func TestWindowsOfPeriods(t *testing.T) {
	now := time.Date(2026, 3, 8, 12, 0, 0, 500, time.UTC)
	for text, want := range map[[2]string]time.Duration{{"now-1d/d", "now-1d/d"}: 24 * time.Hour,
		{"now/w", "now/w"}: 7 * 24 * time.Hour, {"2026-02-01", "2026-02-28"}: 28 * 24 * time.Hour} {
		window, err := ParseWindow(text[0], text[1], now)
		require.NoError(t, err)
		require.Equal(t, want-time.Microsecond, window.To.Sub(window.From), text)
	}
}

func TestSettingsRelativeToTheirFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "settings.json")
	require.NoError(t, os.WriteFile(path, []byte(`{"name": "n", "url": "http://es", "basicAuth": true, "basicAuthUser": "u", "jsonData": {"snapshotDir": "pool", "cacheDir": "/cache", "timezone": "UTC"}, "secureJsonData": {"basicAuthPassword": "p"}}`), 0o600))
	settings, err := ReadSettings(path)
	require.NoError(t, err)
	require.JSONEq(t, `{"snapshotDir": "`+filepath.Join(filepath.Dir(path),
		"pool")+`", "cacheDir": "/cache", "timezone": "UTC"}`, string(settings.JSONData))
	require.Equal(t, backend.DataSourceInstanceSettings{Type: "chtc-gpureports-datasource", Name: "n", URL: "http://es",
		BasicAuthEnabled: true, BasicAuthUser: "u",
		JSONData: settings.JSONData, DecryptedSecureJSONData: map[string]string{"basicAuthPassword": "p"}}, settings)
	require.NoError(t, os.WriteFile(path, []byte(`[]`), 0o600))
	_, err = ReadSettings(path)
	require.ErrorContains(t, err, "jsonData")
}

func TestWorking(t *testing.T) {
	var mu sync.Mutex
	var out strings.Builder
	text := func() string {
		mu.Lock()
		defer mu.Unlock()
		return out.String()
	}
	stop := workingOn(writerFunc(func(text []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return out.Write(text)
	}), "Reading", time.Millisecond)
	require.Eventually(t, func() bool { return strings.HasPrefix(text(), "\rReading … 0s") }, 30*time.Second,
		time.Millisecond)
	stop()
	require.True(t, strings.HasSuffix(text(), "\r\x1b[K"), "the line is removed")
	var silent bytes.Buffer
	Working(&silent, "Reading")()
	require.Empty(t, silent.String(), "where there is no terminal")
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(text []byte) (int, error) { return f(text) }
