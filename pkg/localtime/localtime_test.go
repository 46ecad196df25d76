package localtime

import (
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/chtc/gpureports/pkg/pool"
)

func parse(t testing.TB, setting string) *Zone {
	t.Helper()
	z, err := Parse(json.RawMessage(setting))
	require.NoError(t, err)
	return z
}

func utc(text string) pool.Micros {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return t.UnixMicro()
}

func TestParse(t *testing.T) {
	for _, empty := range []string{"", "null", `""`} {
		require.Equal(t, UTC.Rules(), parse(t, empty).Rules())
	}
	require.Equal(t, "America/Chicago", parse(t, `"America/Chicago"`).Calendar().String())
	moved := parse(t, `[{"until": "2026-05-14 00:00:00", "zone": "America/Chicago"}, {"zone": "UTC"}]`)
	require.Equal(t, "UTC", moved.Calendar().String())
	require.Equal(t, moved.Key(), parse(t, `"[{\"until\": \"2026-05-14 00:00:00\", \"zone\": \"America/Chicago\"}, {\"zone\": \"UTC\"}]"`).Key())
	require.Equal(t, -5*pool.Hour, moved.Offset(utc("2026-05-14T04:59:59Z")))
	require.Zero(t, moved.Offset(utc("2026-05-14T05:00:00Z")))
	require.Zero(t, moved.Offset(math.MaxInt64), "a window may end in any year")
	for setting, want := range map[string]string{
		`"Mars/Olympus"`: "unknown", `"Local"`: "unknown", `7`: "timezone: want", `[]`: "timezone: want",
		`{}`:                                 "timezone: want",
		`[{"zone": "UTC"}, {"zone": "UTC"}]`: "needs `until`",
		`[{"until": "2026-01-01 00:00:00", "zone": "UTC"}]`:                                                                   "must not have it",
		`[{"until": "soon", "zone": "UTC"}, {"zone": "UTC"}]`:                                                                 "is not a time",
		`[{"until": "2026-01-01 00:00:00", "zone": "UTC"}, {"until": "2025-01-01 00:00:00", "zone": "UTC"}, {"zone": "UTC"}]`: "not later",
	} {
		_, err := Parse(json.RawMessage(setting))
		require.ErrorContains(t, err, want, setting)
		require.Equal(t, pool.FaultQuery, pool.FaultOf(err))
	}
}

// The oracle reads the clock on the wall at every quarter of an hour and looks a text up there.
func TestTimesAreReadAsTheClockShowedThem(t *testing.T) {
	const layout = "2006-01-02 15:04:05.000000"
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"UTC", "America/Chicago", "Europe/Berlin", "Asia/Kolkata", "Australia/Lord_Howe",
			"America/Havana", "Asia/Beirut", "Pacific/Apia"}).Draw(t, "zone")
		zone := &Zone{parts: []part{{must(Location(name)), beginning, end}}}
		from := time.Date(2025, time.Month(rapid.IntRange(1, 12).Draw(t, "month")), rapid.IntRange(1, 31).Draw(t, "day"), 0,
			0, 0, 0, time.UTC).UnixMicro()
		shown := map[string][]pool.Micros{}
		for at := from - 2*pool.Day; at < from+4*pool.Day; at += 15 * pool.Minute {
			text := time.UnixMicro(at).In(zone.Calendar()).Format(layout)
			shown[text] = append(shown[text], at)
		}
		r := zone.NewResolver()
		previous := from - 3*pool.Day
		for range 40 {
			// a later quarter, now and then an earlier one
			at := from + pool.Micros(rapid.IntRange(-100, 300).Draw(t, "quarter"))*15*pool.Minute
			text := time.UnixMicro(at).In(zone.Calendar()).Format(layout)
			want, back := shown[text][len(shown[text])-1], true
			for i := len(shown[text]) - 1; i >= 0; i-- {
				if shown[text][i] > previous-20*pool.Second {
					want, back = shown[text][i], false
				}
			}
			got, err := r.Read([]byte(text))
			require.NoError(t, err)
			require.Equal(t, Reading{Time: want, Back: back, Repeated: len(shown[text]) > 1}, got, text)
			previous = want
		}
	})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Rows of one run need not be in the order of time: a step back of less than 20 s shows nothing, also in the hour that
// occurs twice.
func TestSmallStepsBack(t *testing.T) {
	r := parse(t, `"America/Chicago"`).NewResolver()
	for _, c := range []struct {
		text, want string
		back       bool
	}{
		{"2025-11-02 00:59:50", "2025-11-02T05:59:50Z", false}, {"2025-11-02 00:59:31", "2025-11-02T05:59:31Z", false},
		{"2025-11-02 00:59:11", "2025-11-02T05:59:11Z", true}, {"2025-11-02 01:20:05", "2025-11-02T06:20:05Z", false},
		{"2025-11-02 01:19:46", "2025-11-02T06:19:46Z", false}, {"2025-11-02 01:19:26", "2025-11-02T07:19:26Z", false},
		{"2025-11-02 01:19:10", "2025-11-02T07:19:10Z", false},
	} {
		got, err := r.Read([]byte(c.text))
		require.NoError(t, err)
		require.Equal(t, utc(c.want), got.Time, c.text)
		require.Equal(t, c.back, got.Back, c.text)
	}
}

func TestReadOddTimes(t *testing.T) {
	chicago := parse(t, `"America/Chicago"`)
	got, err := chicago.NewResolver().Read([]byte("2025-03-09 02:30:00"))
	require.NoError(t, err)
	require.Equal(t, Reading{Time: utc("2025-03-09T08:30:00Z"), Missing: true}, got,
		"read with the offset before the change")

	moved := parse(t, `[{"until": "2026-05-14 00:00:00", "zone": "UTC"}, {"zone": "America/Chicago"}]`).NewResolver()
	for _, c := range []struct{ text, want string }{
		{"2026-05-13 22:00:00", "2026-05-13T22:00:00Z"}, {"2026-05-13 23:45:00", "2026-05-13T23:45:00Z"},
		// the hours that the move repeats
		{"2026-05-13 19:00:00", "2026-05-14T00:00:00Z"}, {"2026-05-13 22:00:00", "2026-05-14T03:00:00Z"},
		{"2026-05-14 00:15:00", "2026-05-14T05:15:00Z"},
	} {
		got, err := moved.Read([]byte(c.text))
		require.NoError(t, err)
		require.Equal(t, utc(c.want), got.Time, c.text)
	}
	skipped := parse(t, `[{"until": "2026-05-14 00:00:00", "zone": "America/Chicago"}, {"zone": "UTC"}]`)
	got, err = skipped.NewResolver().Read([]byte("2026-05-14 02:00:00"))
	require.NoError(t, err)
	require.True(t, got.Missing)
	require.Equal(t, utc("2026-05-14T07:00:00Z"), got.Time)

	for _, text := range []string{"", "2025-09-01", "2025-09-01 00:00", "2025-13-01 00:00:00", "2025-02-30 00:00:00",
		"2025-09-01 24:00:00", "2025-09-01 00:00:00.", "2025-09-01 00:00:00,5", "2025-09-01 00:00:0x", "1756684800"} {
		_, err := chicago.NewResolver().Read([]byte(text))
		require.ErrorContains(t, err, "not of the form", text)
	}
	got, err = UTC.NewResolver().Read([]byte("2025-09-01T00:00:00.12"))
	require.NoError(t, err)
	require.Equal(t, utc("2025-09-01T00:00:00Z")+120_000, got.Time)
	got, err = UTC.NewResolver().Read([]byte("2025-09-01 00:00:00.123456789"))
	require.NoError(t, err)
	require.Equal(t, utc("2025-09-01T00:00:00Z")+123_456, got.Time)
}

// A bucket begins at the first instant whose wall clock says the bucket's beginning or later, found here minute by
// minute.
func TestBuckets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		zone := must(Location(rapid.SampledFrom([]string{"UTC", "America/Chicago", "Asia/Kolkata", "Australia/Lord_Howe",
			"America/Havana", "Asia/Beirut"}).Draw(t, "zone")))
		b := rapid.SampledFrom(Buckets).Draw(t, "bucket")
		b.YearStart = rapid.IntRange(0, 12).Draw(t, "first month of the year")
		at := utc("2025-01-01T00:00:00Z") + pool.Micros(rapid.IntRange(0, 525_600).Draw(t, "minute"))*pool.Minute
		start := b.Floor(at, zone)
		next := b.Next(start, zone)
		require.LessOrEqual(t, start, at)
		require.Greater(t, next, at, "%s", b.Name)
		require.Equal(t, start, b.Floor(start, zone))
		require.Equal(t, start, b.Floor(next-1, zone))
		require.Equal(t, next, b.Floor(next, zone))
		if b.Minutes <= 60 {
			require.Equal(t, wallFloor(at, b.Minutes, zone), start, "%s of %s", b.Name, pool.Time(at))
			return
		}
		label := func(at pool.Micros) string { // of the bucket, only by the wall clock
			w := time.UnixMicro(at).In(zone)
			if b.Minutes < 1440 {
				return w.Format("2006-01-02 ") + string(rune('a'+w.Hour()*60/b.Minutes))
			}
			switch {
			case b.Minutes == 1440:
				return w.Format(time.DateOnly)
			case b.Months > 0: // months since a year that began in the bucket's first month
				months := w.Year()*12 + int(w.Month()) - max(1, b.YearStart)
				return strconv.Itoa(months / b.Months)
			}
			year, week := w.ISOWeek()
			return time.Date(year, 1, week, 0, 0, 0, 0, time.UTC).String()
		}
		first := at
		for label(first-pool.Minute) == label(at) {
			first -= pool.Minute
		}
		if label(start) == label(at) { // else the clock was set back over the boundary: the bucket began before
			require.Equal(t, first, start, "%s of %s", b.Name, pool.Time(at))
		}
	})
}

// wallFloor goes back minute by minute to where the wall clock shows a multiple of the given minutes, or jumps
// over one.
func wallFloor(at pool.Micros, minutes int, zone *time.Location) pool.Micros {
	wall := func(at pool.Micros) int {
		w := time.UnixMicro(at).In(zone)
		return (w.YearDay()*24+w.Hour())*60 + w.Minute()
	}
	for ; ; at -= pool.Minute {
		now, before := wall(at), wall(at-pool.Minute)
		if now%minutes == 0 || now > before+1 && now/minutes > before/minutes {
			return at
		}
	}
}

// Lord Howe's clock is changed by half an hour, at 2 o'clock.
func TestHalfHourChange(t *testing.T) {
	zone := must(Location("Australia/Lord_Howe"))
	hour := Buckets[4]
	for _, c := range []struct{ at, start, next string }{
		// 01:40, before the clock jumps from 2:00 to 2:30
		{"2025-10-04T15:10:00Z", "2025-10-04T14:30:00Z", "2025-10-04T15:30:00Z"},
		{"2025-10-04T15:30:00Z", "2025-10-04T15:30:00Z", "2025-10-04T16:00:00Z"}, // 02:30
		{"2025-10-04T16:00:00Z", "2025-10-04T16:00:00Z", "2025-10-04T17:00:00Z"}, // 03:00
		// 01:40, before it is set back from 2:00 to 1:30
		{"2025-04-05T14:40:00Z", "2025-04-05T14:00:00Z", "2025-04-05T15:30:00Z"},
		{"2025-04-05T15:10:00Z", "2025-04-05T14:00:00Z", "2025-04-05T15:30:00Z"}, // 01:40 again
		{"2025-04-05T15:30:00Z", "2025-04-05T15:30:00Z", "2025-04-05T16:30:00Z"}, // 02:00
	} {
		require.Equal(t, utc(c.start), hour.Floor(utc(c.at), zone), c.at)
		require.Equal(t, utc(c.next), hour.Next(utc(c.start), zone), c.at)
	}
}

func TestMonths(t *testing.T) {
	zone := must(Location("America/Chicago"))
	at := utc("2026-02-10T12:00:00Z")
	for name, want := range map[string][2]string{"1M": {"2026-02-01", "2026-03-01"}, "1Q": {"2026-01-01", "2026-04-01"},
		"1y": {"2025-07-01", "2026-07-01"}} {
		b := Buckets[slices.IndexFunc(Buckets, func(b Bucket) bool { return b.Name == name })]
		b.YearStart = 7
		start := b.Floor(at, zone)
		require.Equal(t, want[0]+" 00:00:00", time.UnixMicro(start).In(zone).Format(time.DateTime), name)
		require.Equal(t, want[1]+" 00:00:00", time.UnixMicro(b.Next(start, zone)).In(zone).Format(time.DateTime), name)
	}
}

func TestSlice(t *testing.T) {
	chicago, kolkata := parse(t, `"America/Chicago"`), parse(t, `"Asia/Kolkata"`)
	require.Equal(t, utc("2025-11-02T06:00:00Z"), chicago.Slice(utc("2025-11-02T06:59:59Z"), 60),
		"first pass of the repeated hour")
	require.Equal(t, utc("2025-11-02T07:00:00Z"), chicago.Slice(utc("2025-11-02T07:00:01Z"), 60), "second pass")
	require.Equal(t, utc("2025-06-02T06:30:00Z"), kolkata.Slice(utc("2025-06-02T07:10:00Z"), 60))
	require.Equal(t, utc("1969-12-31T23:45:00Z"), UTC.Slice(utc("1969-12-31T23:59:00Z"), 15))
	require.Equal(t, utc("2025-11-02T01:59:59Z"), chicago.Local(utc("2025-11-02T06:59:59Z")))
	moved := parse(t, `[{"until": "2026-05-14 00:00:00", "zone": "America/Chicago"}, {"zone": "UTC"}]`)
	require.True(t, moved.Changes(utc("2026-05-14T05:00:00Z"), utc("2026-05-14T05:00:00Z")))
	require.False(t, moved.Changes(utc("2026-05-14T05:00:01Z"), utc("2027-05-14T05:00:00Z")))
}

func FuzzRead(f *testing.F) {
	for _, seed := range []string{"2025-09-01 00:00:00.123456", "2025-11-02 01:30:00", "x", ""} {
		f.Add([]byte(seed))
	}
	zone := parse(f, `"America/Chicago"`)
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := zone.NewResolver().Read(text)
		if err == nil && !got.Missing {
			require.Contains(t, string(text), time.UnixMicro(got.Time).In(zone.Calendar()).Format("15:04:05"))
		}
	})
}

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
