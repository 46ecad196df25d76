package queues

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/timeline"
)

// rowOfView is a row of a naive view: texts, and seconds since 1970.
type rowOfView struct {
	job, owner, list string
	first, last      uint32
}

// viewOf is a view of rows, each on the day on which it begins, in two months whose rows alternate in their files.
func viewOf(rows []rowOfView) *View {
	names := timeline.NewNames()
	days := map[uint32]*Day{}
	v := &View{Names: names}
	for _, r := range rows {
		date := r.first / 86400
		if days[date] == nil {
			days[date] = &Day{Date: int32(date)}
			v.Days = append(v.Days, days[date])
		}
		d := days[date]
		d.Rows = append(d.Rows, Row{Job: names.Job(r.job), Owner: names.Symbol(r.owner), Project: names.Symbol(r.list),
			First: r.first, Last: r.last})
		d.Last = max(d.Last, r.last)
	}
	return v
}

// naive finds the list of a job that a user runs by looking at all rows again and again.
func naive(rows []rowOfView, w pool.Window, job, user string) (list string, how Attribution) {
	const week = 7 * 86400
	var near []rowOfView
	for _, r := range rows {
		if int64(r.last)*1e6 >= w.From-week*1e6 && int64(r.first)*1e6 <= w.To+week*1e6 {
			near = append(near, r)
		}
	}
	listOf := func(job string) (list string, there bool) {
		var best rowOfView
		for _, r := range near {
			if r.job != job {
				continue
			}
			there = true
			if r.list != "" && (best.list == "" || r.last > best.last || r.last == best.last && r.first >= best.first) {
				best = r
			}
		}
		return best.list, there
	}
	if list, there := listOf(job); there && job != "" {
		return list, ByJob
	}
	lists := map[string]bool{}
	for _, r := range near {
		if short, _, _ := strings.Cut(user, "@"); r.owner != "" && (r.owner == user || r.owner == short) {
			list, _ := listOf(r.job)
			lists[list] = true
		}
	}
	if len(lists) == 1 {
		for list := range lists {
			return list, ByUser
		}
	}
	return "", ByNone
}

func TestProjectsLikeNaive(t *testing.T) {
	met := map[Attribution]int{}
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 1))
		pick := func(from ...string) string { return from[random.IntN(len(from))] }
		jobs := []string{"", "odd"}
		for i := range 12 {
			jobs = append(jobs, fmt.Sprintf("ap1#%d.0#1700000000", i))
		}
		users := []string{"", "a", "b", "c", "a@x", "b@x", "c@y", "d", "d@x"}
		var rows []rowOfView
		for range random.IntN(40) {
			first := uint32(1_700_000_000 + random.IntN(30)*43200)
			rows = append(rows, rowOfView{pick(jobs[1:9]...), pick(users[:7]...), pick("", "", "P", "P", "Q", "P,Q"), first,
				first + uint32(random.IntN(3)*43200)})
		}
		v := viewOf(rows)
		w := pool.Window{From: (1_700_000_000 + int64(random.IntN(30)*43200)) * 1e6}
		w.To = w.From + int64(random.IntN(10)*43200)*1e6
		p, err := v.ProjectsIn(t.Context(), w)
		require.NoError(t, err)
		again, err := v.ProjectsIn(t.Context(), w)
		require.NoError(t, err)
		require.Equal(t, p.Fingerprint, again.Fingerprint)
		for _, job := range jobs {
			for _, user := range users {
				want, how := naive(rows, w, job, user)
				list, as := p.Of(v.Names.Job(job), user)
				require.Equal(t, how, as, "seed %d: %q of %q", seed, job, user)
				require.Equal(t, want, v.Names.Text(list), "seed %d: %q of %q", seed, job, user)
				met[how]++
			}
		}
	}
	require.Len(t, met, Attributions)
}

// A list that changes, an owner or a job more makes another fingerprint.
func TestFingerprint(t *testing.T) {
	rows := []rowOfView{{"ap#1.0#9", "a", "P", 1_700_000_000, 1_700_000_000}, {"ap#2.0#9", "b", "", 1_700_000_000, 1_700_000_000}}
	fingerprint := func(rows []rowOfView) uint64 {
		p, err := viewOf(rows).ProjectsIn(t.Context(), pool.Window{From: 1_700_000_000e6, To: 1_700_000_001e6})
		require.NoError(t, err)
		return p.Fingerprint
	}
	seen := map[uint64]bool{fingerprint(rows): true}
	for _, other := range [][]rowOfView{
		{rows[0]}, {rows[0], {"ap#2.0#9", "b", "P", 1_700_000_000, 1_700_000_000}},
		{rows[0], {"ap#2.0#9", "a", "", 1_700_000_000, 1_700_000_000}},
		{rows[0], rows[1], {"ap#2.0#9", "a", "", 1_700_000_000, 1_700_000_000}},
		{rows[0], {"ap#3.0#9", "b", "", 1_700_000_000, 1_700_000_000}},
	} {
		f := fingerprint(other)
		require.False(t, seen[f])
		seen[f] = true
	}
}
