package runstest

import (
	"database/sql"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
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
