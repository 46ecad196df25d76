package localtime

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Zones are those of the embedded database, regardless of the machine's own files.
func TestZonesAreEmbedded(t *testing.T) {
	const name = "America/Chicago"
	if os.Getenv("ZONEINFO") == "" {
		files := t.TempDir()
		berlin, err := zoneData("Europe/Berlin")
		require.NoError(t, err)
		require.NoError(t, os.Mkdir(filepath.Join(files, "America"), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(files, name), berlin, 0o600))
		// #nosec G204 -- this test
		again := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v")
		again.Env = append(os.Environ(), "ZONEINFO="+files)
		out, err := again.CombinedOutput()
		require.NoError(t, err, string(out))
		require.Contains(t, string(out), "--- PASS")
		return
	}
	at := time.Date(2025, 7, 1, 12, 0, 0, 0, time.UTC)
	foreign, err := time.LoadLocation(name)
	require.NoError(t, err)
	require.Equal(t, 14, at.In(foreign).Hour(), "the standard library believes the machine")
	location, err := Location(name)
	require.NoError(t, err)
	require.Equal(t, 7, at.In(location).Hour())
}

// Cached data depend on a zone's transitions, not only on its name.
func TestRulesNameTheTransitions(t *testing.T) {
	chicago, berlin := parse(t, `"America/Chicago"`), parse(t, `"Europe/Berlin"`)
	require.Equal(t, chicago.Rules(), parse(t, `"America/Chicago"`).Rules())
	require.NotEqual(t, chicago.Rules(), berlin.Rules())
	data, err := zoneData("America/Chicago")
	require.NoError(t, err)
	_, before, err := load("America/Chicago")
	require.NoError(t, err)
	require.Contains(t, chicago.Rules(), before)
	require.NotEmpty(t, data)
	list := parse(t, `[{"until": "2026-05-14 00:00:00", "zone": "America/Chicago"}, {"zone": "Europe/Berlin"}]`)
	for _, zone := range []string{"America/Chicago", "Europe/Berlin"} {
		_, transitions, err := load(zone)
		require.NoError(t, err)
		require.Contains(t, list.Rules(), transitions)
	}
}

func TestUnknownZones(t *testing.T) {
	for _, name := range []string{"Local", "Europe", "Europe/", "/etc/localtime", "../UTC", "europe/berlin",
		"zoneinfo.zip"} {
		_, err := Location(name)
		require.ErrorContains(t, err, "is unknown", name)
	}
}
