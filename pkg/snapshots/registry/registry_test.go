package registry

import (
	"bytes"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	parquetgo "github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/convert"
	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/internal/dev/snapshotstest"
	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/snapshots/parquet"
)

// reading keeps what a day is made of.
type reading struct {
	rows  []snapshots.Row
	lines []string
}

func (r *reading) Begin(bool) {}

func (r *reading) Distinct(row snapshots.Row) {
	r.rows = append(r.rows, append(snapshots.Row{}, row...))
}

func (r *reading) Snapshot(s snapshots.Snapshot) error {
	r.lines = append(r.lines, fmt.Sprint("snapshot ", s.Time))
	for i, n := range s.Rows {
		r.lines = append(r.lines, fmt.Sprintf("%q %v", r.rows[n].Columns(), s.Usage[i]))
	}
	return nil
}

// source opens a directory.
func source(t testing.TB, dir, zone string) snapshots.Source {
	t.Helper()
	d, err := snapshots.OpenDir(dir)
	require.NoError(t, err)
	z, err := localtime.Parse([]byte(`"` + zone + `"`))
	require.NoError(t, err)
	s := OpenDir(d, z)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// everything is all that a state holds, and its oddities.
func everything(t testing.TB, s snapshots.Source) (lines []string, notices []string) {
	t.Helper()
	state, err := s.Look(t.Context())
	require.NoError(t, err)
	for _, date := range state.Dates() {
		var r reading
		found, err := state.Rows(t.Context(), date, snapshots.Known{}, &r)
		require.NoError(t, err)
		if len(r.lines) > 0 {
			lines = append(lines, fmt.Sprintf("day %d %+v", date, found.Oddities))
			lines = append(lines, r.lines...)
		}
	}
	for _, n := range state.Notices() {
		notices = append(notices, n.Text)
	}
	return lines, notices
}

// converted returns a directory with the months of another one in the other format.
func converted(t testing.TB, dir string) string {
	t.Helper()
	out := t.TempDir()
	files, err := filepath.Glob(filepath.Join(dir, "gpu_state_20??-??.db"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		_, err := convert.File(t.Context(), file, out, nil)
		require.NoError(t, err)
	}
	return out
}

// zonedRow is a row of a writer of Parquet that knows its zone, such as pandas.
type zonedRow struct {
	Name    string  `parquet:"Name"`
	Machine string  `parquet:"Machine"`
	GPU     string  `parquet:"AssignedGPUs"`
	State   string  `parquet:"State"`
	Cpus    float32 `parquet:"Cpus"`
	Broken  bool    `parquet:"SlotBrokenReason"`
	At      int64   `parquet:"timestamp,timestamp(microsecond:utc)"`
}

// Times with an offset, and those of UTC in Parquet, are read as they are, in any zone of the collector: also in
// the hour that its clock shows twice. A collector goes on writing into such a file.
func TestTimesThatKnowTheirZone(t *testing.T) {
	const month = "gpu_state_2025-11"
	row := func(at string) snapshotstest.Row {
		return snapshotstest.Row{"Name": "slot1@m", "Machine": "m", "AssignedGPUs": "GPU-1", "State": "Claimed", "Cpus": 4,
			"SlotBrokenReason": "1", "timestamp": at}
	}
	texts, local, columns := t.TempDir(), t.TempDir(), t.TempDir()
	snapshotstest.Write(t, texts, map[string][]snapshotstest.Row{month + ".db": {
		row("2025-11-02T05:30:00Z"), row("2025-11-02 01:30:00.5-05:00"), row("2025-11-02T09:10:00.25+02:00"),
		row("2025-11-02 09:00:00+00:00")}})
	snapshotstest.Write(t, local, map[string][]snapshotstest.Row{month + ".db": {
		row("2025-11-02 00:30:00"), row("2025-11-02 01:30:00.5"), row("2025-11-02 01:10:00.25"), row("2025-11-02 03:00:00")}})
	var zoned bytes.Buffer
	w := parquetgo.NewGenericWriter[zonedRow](&zoned)
	for _, at := range []string{"2025-11-02T05:30:00Z", "2025-11-02T06:30:00.5Z", "2025-11-02T07:10:00.25Z"} {
		moment, err := time.Parse(time.RFC3339Nano, at)
		require.NoError(t, err)
		_, err = w.Write([]zonedRow{{"slot1@m", "m", "GPU-1", "Claimed", 4, true, moment.UnixMicro()}})
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	file := filepath.Join(columns, month+".parquet")
	require.NoError(t, os.WriteFile(file, zoned.Bytes(), 0o600))
	fields := []parquet.Field{{Name: "Name", Kind: parquet.Text}, {Name: "Machine", Kind: parquet.Text},
		{Name: "AssignedGPUs", Kind: parquet.Text}, {Name: "State", Kind: parquet.Text},
		{Name: "Cpus", Kind: parquet.Integer},
		{Name: "SlotBrokenReason", Kind: parquet.Text}, {Name: "timestamp", Kind: parquet.Moment}}
	require.NoError(t, parquet.Append(t.Context(), file, fields,
		[][]any{{"slot1@m", "m", "GPU-1", "Claimed", int64(4), "1", "2025-11-02 03:00:00.000000"}}))
	want, _ := everything(t, source(t, local, "America/Chicago"))
	require.Len(t, want, 1+2*4)
	for _, dir := range []string{texts, columns} {
		got, notices := everything(t, source(t, dir, "America/Chicago"))
		require.Equal(t, want, got)
		require.Empty(t, notices)
	}
}

// Both formats hold the same snapshots of the golden pools, converted and as polars wrote them.
func TestFormatsAgree(t *testing.T) {
	for name, zone := range map[string]string{"pool-a": "UTC", "pool-b": "America/Chicago", "pool-c": "America/Chicago"} {
		t.Run(name, func(t *testing.T) {
			dir := golden.Pool(t, name)
			want, _ := everything(t, source(t, dir, zone))
			require.NotEmpty(t, want)
			got, notices := everything(t, source(t, converted(t, dir), zone))
			require.Equal(t, want, got)
			require.Empty(t, notices)
			if name == "pool-c" {
				got, notices = everything(t, source(t, golden.Parquet(t), zone))
				require.Equal(t, want, got)
				require.Empty(t, notices)
			}
		})
	}
}

// exec changes a month file of SQLite.
func exec(t testing.TB, path, statement string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	_, err = db.Exec(statement)
	require.NoError(t, err)
	require.NoError(t, db.Close())
}

func copyFile(t testing.TB, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(to, data, 0o600))
}

// Of two files of one month rows never count twice; each counts where the other has none.
func TestTwoFilesOfAMonth(t *testing.T) {
	const month, zone = "gpu_state_2025-10", "UTC"
	dir := golden.Pool(t, "pool-a")
	want, _ := everything(t, source(t, dir, zone))
	parquet := filepath.Join(converted(t, dir), month+".parquet")

	t.Run("the same twice", func(t *testing.T) {
		copyFile(t, parquet, filepath.Join(dir, month+".parquet"))
		got, notices := everything(t, source(t, dir, zone))
		require.Equal(t, want, got)
		require.Equal(t, []string{"gpu_state_2025-10.db and gpu_state_2025-10.parquet cover the same month: " +
			"gpu_state_2025-10.parquet takes precedence, and gpu_state_2025-10.db counts if it has no rows"}, notices)
	})
	t.Run("Parquet counts", func(t *testing.T) {
		exec(t, filepath.Join(dir, month+".db"), "UPDATE gpu_state SET RemoteOwner = 'nobody'")
		got, _ := everything(t, source(t, dir, zone))
		require.Equal(t, want, got)
	})
	for name, delete := range map[string][2]string{
		"SQLite first":  {"timestamp >= '2025-10-01 11:00'", "timestamp < '2025-10-01 11:00'"},
		"Parquet first": {"timestamp < '2025-10-01 11:00'", "timestamp >= '2025-10-01 11:00'"},
		"SQLite inside": {"timestamp < '2025-10-01 08:00' OR timestamp >= '2025-10-01 17:00'",
			"timestamp >= '2025-10-01 08:00' AND timestamp < '2025-10-01 17:00'"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := golden.Pool(t, "pool-a")
			half := filepath.Join(t.TempDir(), month+".db")
			copyFile(t, filepath.Join(dir, month+".db"), half)
			exec(t, filepath.Join(dir, month+".db"), "DELETE FROM gpu_state WHERE "+delete[0])
			exec(t, half, "DELETE FROM gpu_state WHERE "+delete[1])
			_, err := convert.File(t.Context(), half, dir, nil)
			require.NoError(t, err)
			got, notices := everything(t, source(t, dir, zone))
			if name == "SQLite inside" { // Parquet counts from its first row to its last
				require.Less(t, len(got), len(want))
				require.True(t, strings.HasPrefix(notices[0],
					"gpu_state_2025-10.db and gpu_state_2025-10.parquet cover the same month"))
				return
			}
			require.Equal(t, want, got)
			require.Len(t, notices, 1)
		})
	}
}

// Links that stay in the directory are followed, absolute ones too; those that lead out are not.
func TestLinks(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "big"), 0o700))
	name := "gpu_state_2025-09.db"
	row := snapshotstest.Row{"Name": "slot1@m", "Machine": "m", "AssignedGPUs": "GPU-a", "State": "Unclaimed",
		"timestamp": "2025-09-01 00:00:00.000000"}
	for _, at := range []string{filepath.Join(dir, "big"), outside} {
		snapshotstest.Write(t, at, map[string][]snapshotstest.Row{name: {row}})
	}
	link := filepath.Join(dir, name)
	for target, want := range map[string]string{filepath.Join("big", name): "", filepath.Join(dir, "big", name): "",
		filepath.Join(outside, name): "leads out of the snapshot directory"} {
		require.NoError(t, os.Symlink(target, link))
		d, err := snapshots.OpenDir(dir)
		require.NoError(t, err)
		zone, err := localtime.Parse([]byte(`"UTC"`))
		require.NoError(t, err)
		source := OpenDir(d, zone)
		state, err := source.Look(t.Context())
		require.NoError(t, err)
		if want == "" {
			require.NoError(t, state.Err())
			require.NotEmpty(t, state.Dates())
		} else {
			require.ErrorContains(t, state.Err(), want)
		}
		require.NoError(t, source.Close())
		require.NoError(t, os.Remove(link))
	}
}
