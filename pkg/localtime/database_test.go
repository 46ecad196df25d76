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
		berlin, err := Embedded().read("Europe/Berlin")
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
	data, err := Embedded().read("America/Chicago")
	require.NoError(t, err)
	_, before, err := Newest().load("America/Chicago")
	require.NoError(t, err)
	require.Contains(t, chicago.Rules(), before)
	require.NotEmpty(t, data)
	list := parse(t, `[{"until": "2026-05-14 00:00:00", "zone": "America/Chicago"}, {"zone": "Europe/Berlin"}]`)
	for _, zone := range []string{"America/Chicago", "Europe/Berlin"} {
		_, transitions, err := Newest().load(zone)
		require.NoError(t, err)
		require.Contains(t, list.Rules(), transitions)
	}
}

func TestUnknownZones(t *testing.T) {
	for _, name := range []string{"Local", "Europe", "Europe/", "/etc/localtime", "../UTC", "europe/berlin",
		"zoneinfo.zip", "+VERSION", "America/../UTC"} {
		_, err := Location(name)
		require.ErrorContains(t, err, "is unknown", name)
	}
}

// A machine's own database counts as a whole if it is newer, and zones that it lacks are the embedded ones.
func TestNewerDatabaseOfTheMachineCounts(t *testing.T) {
	berlin, err := Embedded().read("Europe/Berlin")
	require.NoError(t, err)
	require.Regexp(t, `^20\d\d[a-z]$`, Embedded().Release)
	machine := func(release string) string {
		dir := t.TempDir()
		require.NoError(t, os.Mkdir(filepath.Join(dir, "America"), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "America", "Chicago"), berlin, 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "secret"), berlin, 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "tzdata.zi"), []byte("# version "+release+"\n# more"), 0o600))
		return dir
	}
	noon := time.Date(2025, 7, 1, 12, 0, 0, 0, time.UTC)
	hour := func(d *Database, name string) int {
		location, err := d.Location(name)
		require.NoError(t, err)
		return noon.In(location).Hour()
	}
	newer := machine("2999a")
	d := newest(Embedded(), []string{"/no/such/directory", newer})
	require.Equal(t, "2999a", d.Release)
	require.Equal(t, newer, d.Machine)
	require.Equal(t, 14, hour(d, "America/Chicago"))
	require.Equal(t, 8, hour(d, "America/New_York"))
	_, err = d.Location("secret")
	require.ErrorContains(t, err, "is unknown")
	for _, release := range []string{"2001a", Embedded().Release, "newest", ""} {
		require.Equal(t, Embedded(), newest(Embedded(), []string{machine(release)}), release)
	}
	dir := machine("2001a")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "+VERSION"), []byte("2999b\n"), 0o600))
	require.Equal(t, "2999b", newest(Embedded(), []string{dir}).Release)
}
