package runstest

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/data"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/internal/dev/jobstest"
	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
)

// Growing is a directory into which a sample pool's snapshots come one after another.
type Growing struct {
	t     testing.TB
	Dir   string
	shots []collected
	next  int
	open  map[string]*sql.DB // by month
	rows  map[string]int     // that are there
}

// collected is a snapshot of the pool: rows of a month's file.
type collected struct {
	month string
	time  time.Time
	rows  int
}

// Grow makes a directory without snapshots, and with the lists of a sample pool.
func Grow(t testing.TB, p *samplepool.Pool) *Growing {
	t.Helper()
	full := t.TempDir()
	require.NoError(t, p.WriteSnapshots(t.Context(), full))
	g := &Growing{t: t, Dir: t.TempDir(), open: map[string]*sql.DB{}, rows: map[string]int{}}
	for _, name := range []string{"chtc_owned", "masked_hosts.yaml"} {
		list, err := os.ReadFile(filepath.Join(full, name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(g.Dir, name), list, 0o600))
	}
	for s, err := range p.Snapshots(t.Context()) {
		require.NoError(t, err)
		g.shots = append(g.shots, collected{s.Month, s.Time, len(s.Rows)})
		if g.open[s.Month] != nil {
			continue
		}
		name := snapshots.MonthFile(s.Month, "db")
		db, err := sql.Open("sqlite", filepath.Join(g.Dir, name))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, db.Close()) })
		db.SetMaxOpenConns(1)
		g.open[s.Month] = db
		g.exec(s.Month, "ATTACH ? AS whole", filepath.Join(full, name))
		g.exec(s.Month, "CREATE TABLE gpu_state AS SELECT * FROM whole.gpu_state LIMIT 0")
	}
	return g
}

func (g *Growing) exec(month, statement string, values ...any) {
	g.t.Helper()
	_, err := g.open[month].ExecContext(g.t.Context(), statement, values...)
	require.NoError(g.t, err, statement)
}

// Add adds snapshots, and returns the time of the last one.
func (g *Growing) Add(n int) time.Time {
	for ; n > 0; n-- {
		s := g.shots[g.next]
		g.exec(s.month, "INSERT INTO gpu_state SELECT * FROM whole.gpu_state LIMIT ? OFFSET ?", s.rows, g.rows[s.month])
		g.rows[s.month] += s.rows
		g.next++
	}
	return g.shots[g.next-1].time
}

// Edit changes rows of an earlier time.
func (g *Growing) Edit(random *rand.Rand) {
	s := g.shots[random.IntN(g.next)]
	g.exec(s.month, "UPDATE gpu_state SET State = 'Unclaimed', GlobalJobId = NULL, RemoteOwner = NULL "+
		"WHERE rowid % 7 = 3 AND rowid BETWEEN ? AND ?", random.IntN(g.rows[s.month]), g.rows[s.month])
}

// told are the notices of an answer, and its statistics but those of how it came about.
func told(answer data.Frames) (all []string) {
	for _, n := range answer[0].Meta.Notices {
		all = append(all, n.Text)
	}
	for _, s := range answer[0].Meta.Stats {
		if !strings.HasPrefix(s.DisplayName, "Days ") && s.DisplayName != "Rows read" {
			all = append(all, fmt.Sprint(s.DisplayName, " ", s.Value))
		}
	}
	return all
}

// AnswersWhileGrowing compares answers to queries, in JSON, and their notices while a sample pool grows and changes,
// with those of a newly opened source: with job ads, of which some come late, and without.
func AnswersWhileGrowing(t *testing.T, queries ...string) {
	t.Helper()
	options := samplepool.Default()
	options.Machines, options.ShortRuns, options.MissingJobIDs = 8, 0.2, 0.1
	p, err := samplepool.New(options)
	require.NoError(t, err)
	random := rand.New(rand.NewPCG(1, 4))
	g := Grow(t, p)
	all, err := p.Ads(t.Context())
	require.NoError(t, err)
	var now time.Time
	archive := jobstest.NewMemory()
	ads := jobs.NewCache(1<<28, func() time.Time { return now }).Source(archive, "archive", nil)
	s, fresh := Open(t, g.Dir, "America/Chicago"), Open(t, g.Dir, "America/Chicago")
	g.Add(150)
	for step := range 16 {
		now = g.Add(1 + random.IntN(12)).Add(time.Minute)
		switch step % 6 {
		case 3:
			now = now.Add(8 * time.Hour) // then late ads are requested again
		case 5:
			g.Edit(random)
		}
		for i, ad := range all {
			if arrived := now.Unix() >= ad.RecordTime && random.IntN(3) > 0; arrived && ad.JSON != nil {
				archive.Add(ad.JSON)
				all[i].JSON = nil
			}
		}
		w := pool.NewWindow(now.Add(-20*time.Hour), now)
		fresh.Runs.Close()
		for _, source := range []jobs.Source{ads, nil} {
			for _, q := range queries {
				want, got := fresh.Ask(t, source, w, q), s.Ask(t, source, w, q)
				require.Equal(t, golden.Rows(want), golden.Rows(got), "step %d: %s", step, q)
				require.Equal(t, told(want), told(got), "step %d: %s", step, q)
			}
		}
	}
}
