package samplepool

import (
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Times in queues are those between a job's runs, and before the first one.
func TestQueuesAreBetweenRuns(t *testing.T) {
	p, err := New(Default())
	require.NoError(t, err)
	truth, err := p.Truth(t.Context())
	require.NoError(t, err)
	runs := map[string][]Run{}
	for _, r := range truth.Runs {
		runs[r.Job] = append(runs[r.Job], r)
	}
	hows, polled := map[string]int{}, map[bool]int{}
	again := 0
	for _, i := range truth.Queues {
		hows[i.How]++
		polled[i.Polled]++
		require.False(t, i.End.Before(i.Begin), i.Job)
		for _, r := range runs[i.Job] {
			require.False(t, r.Start.Before(i.End) && r.End.After(i.Begin), "job %s runs while it is idle", i.Job)
			if i.How == IdleStarted && r.Start.Equal(i.End) {
				require.Equal(t, i.Stretch, r.Number)
			}
		}
		if i.Stretch > 1 {
			again++
		}
	}
	for _, how := range []string{IdleStarted, IdleRemoved, IdleHeld, IdleWaiting} {
		require.NotZero(t, hows[how], how)
	}
	require.Greater(t, again, 20, "evicted jobs wait again")
	require.Greater(t, polled[true], polled[false])
	require.NotZero(t, polled[false], "an access point is not polled")
}

// The files hold, of polled access points, exactly the polls that find a job idle.
func TestIdleRowsAreWhatPollsFind(t *testing.T) {
	o := Default()
	p, err := New(o)
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, p.WriteQueues(t.Context(), dir))
	require.ErrorContains(t, p.WriteQueues(t.Context(), dir), "exists already")
	all, err := p.Queues(t.Context())
	require.NoError(t, err)
	idle := map[string][]Idle{}
	seen, found := 0, 0
	polls := p.Polls()
	for _, i := range all {
		idle[i.Job] = append(idle[i.Job], i)
		for _, poll := range polls {
			if i.Polled && !poll.Before(i.Begin) && poll.Before(i.End) {
				seen++
			}
		}
	}
	rows := 0
	for _, month := range []string{"2025-10", "2025-11"} { // Chicago's
		db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "job_pressure_"+month+".db")+"?mode=ro")
		require.NoError(t, err)
		lines, err := db.Query("SELECT GlobalJobId, ScheddName, QDate, first_seen, last_seen FROM job_pressure ORDER BY " +
			"rowid")
		require.NoError(t, err)
		before := int64(0)
		for lines.Next() {
			var job, schedd string
			var qdate, first, last int64
			require.NoError(t, lines.Scan(&job, &schedd, &qdate, &first, &last))
			require.GreaterOrEqual(t, first, before)
			before = first
			rows++
			require.NotEqual(t, p.schedds[len(p.schedds)-1].Name, schedd)
			for _, poll := range polls {
				if poll.Unix() < first || poll.Unix() > last {
					continue
				}
				require.Equal(t, month, poll.In(p.zone).Format("2006-01"))
				for _, i := range idle[job] {
					if !poll.Before(i.Begin) && poll.Before(i.End) {
						found++
					}
				}
			}
		}
		require.NoError(t, lines.Err())
		require.NoError(t, lines.Close())
		require.NoError(t, db.Close())
	}
	require.Greater(t, rows, 100)
	require.Equal(t, seen, found, "each sighting stands in a row")
	longest := time.Duration(0)
	for i := 1; i < len(polls); i++ {
		longest = max(longest, polls[i].Sub(polls[i-1]))
	}
	require.Greater(t, longest, 2*time.Hour, "an outage of the poller")
	o.Polls = 0
	p, err = New(o)
	require.NoError(t, err)
	require.NoError(t, p.WriteQueues(t.Context(), t.TempDir()))
}
