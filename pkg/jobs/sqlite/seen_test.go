package sqlite

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/chtc/gpureports/pkg/jobs"
)

// Whatever was looked up before, answers are those of a source that has seen nothing, with the same notices, while the
// file is extended and changed.
func TestSeenRowsChangeNoAnswer(t *testing.T) {
	const day = 86400
	path := filepath.Join(t.TempDir(), "jobs.db")
	stored := rapid.Custom(func(t *rapid.T) string {
		if rapid.IntRange(0, 9).Draw(t, "broken") == 0 {
			return rapid.SampledFrom([]string{`{"GlobalJobId": "j1"`, `{}`, `null`, ``}).Draw(t, "bad")
		}
		start := rapid.IntRange(0, 3*day).Draw(t, "start")
		return fmt.Sprintf(`{"GlobalJobId": "j%d", "StartdName": "m%d", "JobCurrentStartDate": %d%s}`,
			rapid.IntRange(1, 6).Draw(t, "job"), rapid.IntRange(1, 3).Draw(t, "machine"), start,
			rapid.SampledFrom([]string{"", `, "NumHolds": "many"`, fmt.Sprintf(`, "EpochWriteDate": %d`, start+60),
				fmt.Sprintf(`, "EpochWriteDate": %d`, start+7200), `, "EpochWriteDate": 90000, "EpochAdType": "SPAWN"`}).
				Draw(t, "epoch"))
	})
	rapid.Check(t, func(t *rapid.T) {
		require.NoError(t, os.RemoveAll(path))
		db, err := sql.Open("sqlite", path+"?_pragma=synchronous(off)")
		require.NoError(t, err)
		defer db.Close()
		exec := func(statement string, values ...any) {
			_, err := db.Exec(statement, values...)
			require.NoError(t, err)
		}
		exec("CREATE TABLE ads(kind TEXT, GlobalJobId TEXT, RecordTime INTEGER, ad TEXT)")
		one := Open(path)
		for step := range rapid.IntRange(1, 8).Draw(t, "steps") {
			for range rapid.IntRange(0, 4).Draw(t, "changes") {
				ad := stored.Draw(t, "ad")
				parsed, _ := jobs.ParseAd([]byte(ad))
				row := []any{parsed.Kind.String(), parsed.GlobalJobID, rapid.SampledFrom([]any{nil, 0, day, 2 * day}).
					Draw(t, "RecordTime"), ad}
				if rapid.Bool().Draw(t, "replace") {
					exec("UPDATE ads SET kind = ?, GlobalJobId = ?, RecordTime = ?, ad = ? WHERE rowid = 1", row...)
				} else {
					exec("INSERT INTO ads VALUES (?, ?, ?, ?)", row...)
				}
			}
			changed := time.Unix(int64(step), 0) // a file system's clock may be coarse
			require.NoError(t, os.Chtimes(path, changed, changed))
			for range rapid.IntRange(0, 3).Draw(t, "lookups") {
				look := lookup(t)
				got, err := look(one)
				require.NoError(t, err)
				want, err := look(Open(path))
				require.NoError(t, err)
				require.Equal(t, want, got)
			}
		}
	})
}

// lookup draws a question.
func lookup(t *rapid.T) func(*Source) (jobs.Result, error) {
	machine := jobs.MachineDay{Machine: rapid.SampledFrom([]string{"m1", "m2"}).Draw(t, "machine"),
		Day: rapid.Int32Range(0, 2).Draw(t, "day")}
	switch rapid.IntRange(0, 2).Draw(t, "about") {
	case 0:
		return func(s *Source) (jobs.Result, error) {
			return s.Ads(t.Context(), []jobs.Wanted{{Job: "j1"}, {Job: "j2"}, {Job: "j3"}, {Job: "j1"}})
		}
	case 1:
		return func(s *Source) (jobs.Result, error) { return s.AdsOnMachines(t.Context(), []jobs.MachineDay{machine}) }
	}
	return func(s *Source) (jobs.Result, error) {
		return s.Epochs(t.Context(), []jobs.EpochDay{{MachineDay: machine, Longest: time.Hour}})
	}
}
