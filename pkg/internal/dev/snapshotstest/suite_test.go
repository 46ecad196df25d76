package snapshotstest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/snapshots/months"
)

// store is a store of month files as the conformance suite writes it.
type store struct {
	Format months.Format

	// Write makes the file of these rows, in their order, in place of any that is there.
	Write func(t testing.TB, path string, rows []Row)

	// Append adds rows after those of the file, in one commit; it makes the file if there is none.
	Append func(t testing.TB, path string, rows []Row)

	// Open opens the files of a directory; nil means what months.New opens.
	Open func(t testing.TB, dir string, zone *localtime.Zone) snapshots.Source

	// Lock keeps readers out until unlock is called; nil for a store that has no locks.
	Lock func(t testing.TB, path string) (unlock func())
}

// testStore is the conformance suite that every store of month files passes.
func testStore(t *testing.T, store store) {
	s := suite{store}
	for _, c := range []struct {
		name string
		run  func(t *testing.T)
	}{
		{"order", s.order}, {"late and repeated snapshots", s.late}, {"repeated hour", s.repeatedHour},
		{"unreadable timestamps", s.unreadable}, {"clock set back", s.clockSetBack}, {"growth", s.growth},
		{"rewriting", s.rewriting}, {"other processes", s.otherProcesses}, {"empty", s.empty}, {"truncation", s.truncation},
		{"damage", s.damage}, {"locks", s.locks}, {"cancellation", s.cancellation}, {"the newest day twice", s.twice},
		{"finished", s.finished}, {"removed", s.removed}, {"identity", s.identity},
		{"identity of what grows", s.identityOfGrowth}, {"bombs", s.bombs},
	} {
		t.Run(c.name, c.run)
	}
}

type suite struct{ store }

var first = time.Date(2025, 10, 30, 0, 0, 0, 0, time.UTC).UnixMicro()

// at makes a snapshot of a few rows: the slots and their states follow from its number.
func at(t pool.Micros, n int, zone *time.Location) (rows []Stamped) {
	for g := range 2 + n%3 {
		row := Row{
			"Name": fmt.Sprintf("slot1_%d@m%d", g, n%2), "Machine": fmt.Sprintf("m%d", n%2),
			"AssignedGPUs": fmt.Sprintf("GPU-%d", g),
			"State":        "Unclaimed", "GPUs_DeviceName": "NVIDIA H200", "GPUs_GlobalMemoryMb": int64(143771),
			"timestamp": pool.Time(t).In(zone).Format("2006-01-02 15:04:05.000000"),
		}
		if (n/4+g)%2 == 0 {
			row["State"], row["RemoteOwner"], row["GlobalJobId"] = "Claimed", "alice", fmt.Sprintf("ap#%d.0#1756000000", n/4)
			if n%5 > 0 {
				row[snapshots.UsageColumn] = float64(n%7)/4 + 0.001
			}
		}
		rows = append(rows, Stamped{t, row})
	}
	return rows
}

// quarters makes the n-th to the m-th quarter of an hour since the first day.
func quarters(n, m int) (rows []Stamped) {
	for i := n; i < m; i++ {
		rows = append(rows, at(first+pool.Micros(i)*15*pool.Minute, i, time.UTC)...)
	}
	return rows
}

const october, november = "gpu_state_2025-10.", "gpu_state_2025-11."

func (s suite) path(dir, name string) string { return filepath.Join(dir, name+s.Format.Extension) }

func (s suite) open(t testing.TB, dir, zone string) snapshots.Source {
	t.Helper()
	z, err := localtime.Parse([]byte(`"` + zone + `"`))
	require.NoError(t, err)
	if s.Open != nil {
		return s.Open(t, dir, z)
	}
	d, err := snapshots.OpenDir(dir)
	require.NoError(t, err)
	source := months.New(d, z, s.Format)
	t.Cleanup(func() { require.NoError(t, source.Close()) })
	return source
}

func look(t testing.TB, source snapshots.Source) snapshots.State {
	t.Helper()
	state, err := source.Look(t.Context())
	require.NoError(t, err)
	return state
}

func partsOf(t testing.TB, state snapshots.State) []snapshots.Part {
	t.Helper()
	parts, err := state.Parts(t.Context())
	require.NoError(t, err)
	return parts
}

// Rows come in the order of time, each snapshot once, even if a day is in two files.
func (s suite) order(t *testing.T) {
	dir := t.TempDir()
	early, late := quarters(0, 150), quarters(150, 400) // a month's file ends somewhere in its last days
	s.Write(t, s.path(dir, october), Plain(early))
	s.Write(t, s.path(dir, november), Plain(late))
	source := s.open(t, dir, "UTC")
	state := look(t, source)
	requireDays(t, state, Expect(early, late))
	require.Empty(t, state.Notices())
	require.Equal(t, state, look(t, source), "nothing happened")
	parts := partsOf(t, state)
	require.Len(t, parts, 2)
	require.Equal(t, "2025-10", parts[0].Month)
	require.EqualValues(t, len(early), parts[0].Rows)
	require.Equal(t, pool.Window{From: early[0].At, To: early[len(early)-1].At}, parts[0].Window)
	require.Contains(t, parts[0].Columns, "AssignedGPUs")
	require.False(t, parts[0].Unordered)
}

// Runs less than a minute apart are one snapshot, even across files, and so are rows that follow each other closely;
// late rows, duplicate rows and snapshots are in their place.
func (s suite) late(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 10 {
		var rows []Stamped
		now := first + 20*pool.Hour
		for n := range 200 {
			now += []pool.Micros{30 * pool.Second, 59 * pool.Second, 60 * pool.Second, 61 * pool.Second, 5 * pool.Minute,
				15 * pool.Minute, 11 * pool.Second, 19 * pool.Second, 20 * pool.Second}[random.IntN(9)]
			rows = append(rows, at(now, n, time.UTC)...)
			if random.IntN(10) == 0 {
				rows = append(rows, rows[len(rows)-1]) // a row twice
			}
			if random.IntN(10) == 0 && n > 0 { // half an hour late
				rows = append(rows, at(now-30*pool.Minute+pool.Micros(random.IntN(1_000_000)), n, time.UTC)...)
			}
		}
		dir := t.TempDir()
		half := len(rows) / 2
		s.Write(t, s.path(dir, october), Plain(rows[:half]))
		s.Write(t, s.path(dir, november), Plain(rows[half:]))
		requireDays(t, look(t, s.open(t, dir, "UTC")), Expect(rows[:half], rows[half:]))
	}
}

// In the hour that occurs twice a step back of the clock begins the second pass. In Antarctica/Troll two hours do, and
// midnight UTC lies in the middle of them.
func (s suite) repeatedHour(t *testing.T) {
	for zone, start := range map[string]pool.Micros{"America/Chicago": first + 2*pool.Day,
		"Antarctica/Troll": first - 5*pool.Day} {
		location, err := localtime.Location(zone)
		require.NoError(t, err)
		var rows []Stamped
		for n := range 3 * 96 {
			rows = append(rows, at(start+pool.Micros(n)*15*pool.Minute, n, location)...)
		}
		dir := t.TempDir()
		s.Write(t, s.path(dir, "gpu_state_"+pool.Time(start).Format("2006-01")+"."), Plain(rows))
		requireDays(t, found(t, s.open(t, dir, zone)), Expect(rows))
	}
}

// found looks until all rows can be read: a store may find out while it reads that a file is not in the order of time.
func found(t *testing.T, source snapshots.Source) (state snapshots.State) {
	t.Helper()
	for range 5 {
		state = look(t, source)
		if err := readAll(t.Context(), state); !errors.Is(err, snapshots.ErrStale) {
			require.NoError(t, err)
			break
		}
	}
	return state
}

// Rows without a timestamp are left out and counted with their day; a file of such rows gets a notice.
func (s suite) unreadable(t *testing.T) {
	rows := quarters(0, 200)
	odd := Plain(rows)
	for _, i := range []int{0, 40, 300, len(rows)} {
		odd = slices.Insert(odd, i, Row{"Name": "slot1@m", "Machine": "m", "AssignedGPUs": "GPU-0", "State": "Unclaimed"})
	}
	dir := t.TempDir()
	s.Write(t, s.path(dir, october), odd)
	state := look(t, s.open(t, dir, "UTC"))
	requireDays(t, state, Expect(rows))
	counted := 0
	for _, date := range state.Dates() {
		reading, err := state.Rows(t.Context(), date, snapshots.Known{}, &tape{})
		require.NoError(t, err)
		counted += int(reading.Oddities.Unreadable)
	}
	require.Equal(t, 4, counted)
	s.Write(t, s.path(dir, november), odd[:1])
	state = look(t, s.open(t, dir, "UTC"))
	require.Contains(t, state.Notices()[0].Text, "none of its rows has a readable timestamp")
	require.False(t, partsOf(t, state)[1].Dated)
}

// A clock that was set back, or was years ahead for a moment: all rows are there, in the order of time, with a notice.
func (s suite) clockSetBack(t *testing.T) {
	for name, off := range map[string]pool.Micros{"back": -5*pool.Hour + 7*pool.Minute,
		"ahead": 9*pool.Hour + 7*pool.Minute, "years": 70 * 365 * pool.Day} {
		var rows []Stamped
		for n := range 300 {
			now := first + pool.Micros(n)*15*pool.Minute
			if n >= 100 && n < 130 {
				now += off
			}
			rows = append(rows, at(now, n, time.UTC)...)
		}
		dir := t.TempDir()
		s.Write(t, s.path(dir, october), Plain(rows))
		state := found(t, s.open(t, dir, "UTC"))
		requireDays(t, state, Expect(rows))
		require.Contains(t, state.Notices()[0].Text, "not in the order of time", name)
		require.True(t, partsOf(t, state)[0].Unordered, name)
		require.Less(t, len(state.Dates()), 20, "%s: no day between is worth a look", name)
	}
}

func readAll(ctx context.Context, state snapshots.State) error {
	for _, date := range state.Dates() {
		if _, _, err := read(ctx, state, date, kept{}); err != nil {
			return err
		}
	}
	return nil
}

// stamped makes runs of a collector that needs three minutes for its rows and stamps each. The next run begins a while
// later, 13 s later, or with the last row.
func stamped() (rows []Stamped) {
	const machines, step = 12, 17 * pool.Second
	begin := first + 22*pool.Hour
	for n := range 40 {
		for m := range machines {
			at := begin + pool.Micros(m)*step
			rows = append(rows, Stamped{at, Row{"Name": fmt.Sprintf("slot1@m%d", m), "Machine": fmt.Sprintf("m%d", m),
				"AssignedGPUs": "GPU-0", "State": "Unclaimed", "GPUs_GlobalMemoryMb": int64(n),
				"timestamp": pool.Time(at).Format("2006-01-02 15:04:05.000000")}})
		}
		begin += []pool.Micros{15 * pool.Minute, 200 * pool.Second, (machines - 1) * step}[n%3]
	}
	return rows
}

// A day that grows is continued from its newest snapshot; a state does not change.
func (s suite) growth(t *testing.T) {
	for name, rows := range map[string][]Stamped{"runs": quarters(0, 130), "stamped rows": stamped()} {
		t.Run(name, func(t *testing.T) { s.grow(t, rows) })
	}
}

func (s suite) grow(t *testing.T, rows []Stamped) {
	random := rand.New(rand.NewPCG(1, 2))
	dir := t.TempDir()
	path := s.path(dir, october)
	s.Append(t, path, Plain(rows[:10]))
	source := s.open(t, dir, "UTC")
	days, resumedOnce := map[int32]kept{}, false
	for n := 10; n < len(rows); {
		before := look(t, source)
		next := min(len(rows), n+1+random.IntN(12)) // in the middle of snapshots too
		s.Append(t, path, Plain(rows[n:next]))
		state := look(t, source)
		require.NotEqual(t, before, state)
		want, wantBefore := Expect(rows[:next]), Expect(rows[:n])
		for _, date := range state.Dates() {
			e := days[date]
			holds, err := state.Holds(t.Context(), date, e.known)
			require.NoError(t, err)
			if holds {
				require.Equal(t, want[date], e.day, "day %d: it holds", date)
				continue
			}
			now, resumed, err := read(t.Context(), state, date, e)
			require.NoError(t, err)
			require.Equal(t, want[date], now.day, "day %d, resumed %v", date, resumed)
			requireKey(t, state, date, now)
			days[date], resumedOnce = now, resumedOnce || resumed
			if n%3 == 0 && slices.Contains(before.Dates(), date) {
				old, _, err := read(t.Context(), before, date, kept{})
				if !errors.Is(err, snapshots.ErrStale) {
					require.NoError(t, err)
					require.Equal(t, wantBefore[date], old.day, "the earlier state")
				}
			}
		}
		n = next
	}
	require.True(t, resumedOnce)
}

// Whatever happens to a file other than rows appended, nothing of it holds that is not so, in this process.
func (s suite) rewriting(t *testing.T) {
	rows := quarters(0, 200)
	edited := quarters(0, 200)
	edited[57].Row["State"] = "Drained"
	for name, after := range map[string][]Stamped{
		"a row edited": edited, "the beginning gone": rows[20:], "the end gone": rows[:200], "other rows": quarters(7, 180),
		"a row in the middle gone": slices.Delete(slices.Clone(rows), 100, 101),
		"edited and grown":         append(slices.Clone(edited), quarters(200, 203)...),
	} {
		dir := t.TempDir()
		path := s.path(dir, october)
		s.Write(t, path, Plain(rows))
		source := s.open(t, dir, "UTC")
		before := look(t, source)
		days := map[int32]kept{}
		for _, date := range before.Dates() {
			var err error
			days[date], _, err = read(t.Context(), before, date, kept{})
			require.NoError(t, err)
		}
		s.Write(t, path, Plain(after))
		state := look(t, source)
		require.NotEqual(t, before, state)
		want := Expect(after)
		for _, date := range state.Dates() {
			holds, err := state.Holds(t.Context(), date, days[date].known)
			require.NoError(t, err)
			if holds {
				require.Equal(t, want[date], days[date].day, "%s: day %d", name, date)
			}
			now, _, err := read(t.Context(), state, date, days[date])
			require.NoError(t, err)
			require.Equal(t, want[date], now.day, "%s: day %d", name, date)
			if !slices.EqualFunc(want[date], days[date].day, equalShots) {
				require.NotEqual(t, days[date].known.Content, now.known.Content, "%s: day %d", name, date)
			}
		}
		requireDays(t, state, want)
	}
}

func equalShots(a, b Shot) bool {
	return a.Time == b.Time && a.End == b.End && slices.Equal(a.Rows, b.Rows)
}

// Another process that reads the same bytes elsewhere finds the same keys; one that reads other rows or another zone
// does not.
func (s suite) otherProcesses(t *testing.T) {
	rows, edited := quarters(0, 300), quarters(0, 300)
	for _, r := range edited {
		r.Row["RemoteOwner"] = "bob"
	}
	here, there, elsewhere := t.TempDir(), t.TempDir(), t.TempDir()
	s.Write(t, s.path(here, october), Plain(rows))
	content, err := os.ReadFile(s.path(here, october))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(s.path(there, october), content, 0o600))
	s.Write(t, s.path(elsewhere, october), Plain(edited))
	state, copied := look(t, s.open(t, here, "UTC")), look(t, s.open(t, there, "UTC"))
	other, zone := look(t, s.open(t, elsewhere, "UTC")), look(t, s.open(t, there, "Europe/Berlin"))
	for date := range Expect(rows) {
		now, _, err := read(t.Context(), state, date, kept{})
		require.NoError(t, err)
		for what, c := range map[string]struct {
			state snapshots.State
			want  bool
		}{"a copy": {copied, true}, "other rows": {other, false}, "another zone": {zone, false}} {
			holds, err := c.state.Holds(t.Context(), date, snapshots.Known{Key: now.known.Key})
			require.NoError(t, err)
			require.Equal(t, c.want, holds, what)
			key, err := c.state.Key(t.Context(), date)
			require.NoError(t, err)
			require.Equal(t, c.want, key.Content == now.known.Content, what)
			again, _, err := read(t.Context(), c.state, date, kept{now.day, snapshots.Known{Key: now.known.Key}})
			require.NoError(t, err)
			if c.want {
				require.Equal(t, now.day, again.day)
			}
		}
	}
}

// A file without rows is not an error; a directory without files is one.
func (s suite) empty(t *testing.T) {
	dir := t.TempDir()
	source := s.open(t, dir, "UTC")
	_, err := source.Look(t.Context())
	require.ErrorContains(t, err, "no month file")
	require.Equal(t, pool.FaultSource, pool.FaultOf(err))
	s.Write(t, s.path(dir, october), nil)
	state := look(t, source)
	require.Empty(t, state.Dates())
	require.Empty(t, state.Notices())
	require.Zero(t, partsOf(t, state)[0].Rows)
	rows := quarters(0, 20)
	s.Append(t, s.path(dir, october), Plain(rows))
	requireDays(t, look(t, source), Expect(rows))
}

// A file that is cut short, or no such file at all, is named; the others answer.
func (s suite) truncation(t *testing.T) {
	rows, others := quarters(0, 3000), quarters(3000, 3100)
	dir := t.TempDir()
	path := s.path(dir, october)
	s.Write(t, path, Plain(rows))
	s.Write(t, s.path(dir, november), Plain(others))
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	want := Expect(rows, others)
	last := pool.DayOf(others[len(others)-1].At)
	for _, n := range []int{0, 1, 50, len(content) / 3, len(content) - 1} {
		require.NoError(t, os.WriteFile(path, content[:n], 0o600))
		source := s.open(t, dir, "UTC")
		state, err := source.Look(t.Context())
		require.NoError(t, err)
		if part := partsOf(t, state)[0]; part.Err != nil {
			require.ErrorContains(t, part.Err, filepath.Base(path))
			require.NotContains(t, part.Err.Error(), dir)
			require.Equal(t, pool.FaultSource, pool.FaultOf(part.Err))
			require.True(t, slices.ContainsFunc(state.Notices(),
				func(n snapshots.Notice) bool { return n.Warning && n.Text == part.Err.Error() }))
		}
		now, _, err := read(t.Context(), state, last, kept{})
		require.NoError(t, err)
		require.Equal(t, want[last], now.day)
	}
}

// Whatever bytes are damaged: an answer, or an error that names the file; nothing crashes or hangs.
func (s suite) damage(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	rows := quarters(0, 400)
	dir := t.TempDir()
	path := s.path(dir, october)
	s.Write(t, path, Plain(rows))
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	for range 60 {
		broken := slices.Clone(content)
		for range 1 + random.IntN(8) {
			broken[random.IntN(len(broken))] ^= byte(1 + random.IntN(255))
		}
		require.NoError(t, os.WriteFile(path, broken, 0o600))
		source := s.open(t, dir, "UTC")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		state, err := source.Look(ctx)
		if err == nil {
			err = readAll(ctx, state)
		}
		cancel()
		if err != nil && !errors.Is(err, snapshots.ErrStale) {
			require.ErrorContains(t, err, filepath.Base(path))
			require.Equal(t, pool.FaultSource, pool.FaultOf(err))
		}
	}
}

// A locked file becomes an error after a while, and is read as soon as the lock is gone.
func (s suite) locks(t *testing.T) {
	if s.Lock == nil {
		t.Skip("the store has no locks")
	}
	rows, others := quarters(0, 50), quarters(3000, 3010)
	dir := t.TempDir()
	s.Write(t, s.path(dir, october), Plain(rows))
	s.Write(t, s.path(dir, november), Plain(others))
	source := s.open(t, dir, "UTC")
	unlock := s.Lock(t, s.path(dir, october))
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := source.Look(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded, "it waits for the writer, but no longer than it may")
	unlock()
	requireDays(t, look(t, source), Expect(rows, others))
}

// Who has stopped waiting gets their context's error.
func (s suite) cancellation(t *testing.T) {
	dir := t.TempDir()
	s.Write(t, s.path(dir, october), Plain(quarters(0, 200)))
	source := s.open(t, dir, "UTC")
	state := look(t, source)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := source.Look(ctx)
	require.ErrorIs(t, err, context.Canceled)
	_, _, err = read(ctx, state, pool.DayOf(first), kept{})
	require.ErrorIs(t, err, context.Canceled)
	failure := errors.New("enough")
	_, err = state.Rows(t.Context(), pool.DayOf(first), snapshots.Known{}, refusing{failure})
	require.ErrorIs(t, err, failure)
}

type refusing struct{ err error }

func (refusing) Begin(bool)                          {}
func (refusing) Distinct(snapshots.Row)              {}
func (r refusing) Snapshot(snapshots.Snapshot) error { return r.err }

// The newest day, read by many goroutines at the same time while the source is looked at repeatedly.
func (s suite) twice(t *testing.T) {
	rows := quarters(0, 150)
	dir := t.TempDir()
	s.Write(t, s.path(dir, october), Plain(rows))
	source := s.open(t, dir, "UTC")
	want := Expect(rows)
	newest := pool.DayOf(rows[len(rows)-1].At)
	var wait sync.WaitGroup
	for range 6 {
		wait.Go(func() {
			for range 5 {
				state, err := source.Look(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				now, _, err := read(t.Context(), state, newest, kept{})
				if err != nil || !slices.EqualFunc(want[newest], now.day, equalShots) {
					t.Errorf("%d snapshots, %v", len(now.day), err)
				}
			}
		})
	}
	wait.Wait()
}

// A day is finished once there is a row later than two hours after its end, in any file.
func (s suite) finished(t *testing.T) {
	date := pool.DayOf(first)
	end := first + pool.Day
	for _, c := range []struct {
		after pool.Micros
		want  bool
	}{{0, false}, {pool.Hour + 3*pool.Minute, false}, {2 * pool.Hour, false}, {2*pool.Hour + 1, true}} {
		for _, name := range []string{october, november} {
			dir := t.TempDir()
			s.Append(t, s.path(dir, october), Plain(quarters(0, 90)))
			s.Append(t, s.path(dir, name), Plain(at(end+c.after, 1, time.UTC)))
			state := look(t, s.open(t, dir, "UTC"))
			require.Equal(t, c.want, state.Finished(date), "%d %s", c.after, name)
			require.True(t, state.Finished(date-1))
			require.False(t, state.Finished(date+1))
		}
	}
}

// A day whose rows take more than the limit is an error that says so, found while they are read, whether they are
// equal, each of a time of its own, or distinct; the day before it answers.
func (s suite) bombs(t *testing.T) {
	early := quarters(0, 90)
	of := at(first+pool.Day+12*pool.Hour, 0, time.UTC)[0]
	for name, change := range map[string]func(n int, row Row){
		"equal":    func(int, Row) {},
		"times":    func(n int, row Row) { row["timestamp"] = fmt.Sprintf("2025-10-31 12:00:0%d.000000", n%2) },
		"distinct": func(n int, row Row) { row["GPUs_DeviceName"] = fmt.Sprint("a device with a long name, number ", n) },
	} {
		t.Run(name, func(t *testing.T) {
			rows := Plain(early)
			for n := range 6000 {
				row := maps.Clone(of.Row)
				change(n, row)
				rows = append(rows, row)
			}
			dir := t.TempDir()
			s.Write(t, s.path(dir, october), rows)
			source := s.open(t, dir, "UTC")
			date := pool.DayOf(first)
			for _, c := range []struct {
				limit int64
				error string
			}{{60_000, "need more memory than the data source has for reading them (0 MB): raise cacheMaxMB"}, {10 << 20, ""}} {
				source.Limit(c.limit)
				state := look(t, source)
				now, _, err := read(t.Context(), state, date, kept{})
				require.NoError(t, err)
				require.True(t, slices.EqualFunc(Expect(early)[date], now.day, equalShots))
				_, _, err = read(t.Context(), state, date+1, kept{})
				if c.error == "" {
					require.NoError(t, err)
					continue
				}
				require.ErrorContains(t, err, c.error)
				require.Equal(t, pool.FaultSource, pool.FaultOf(err))
			}
		})
	}
}

// A file that is removed and comes back, with other rows, while the source is open.
func (s suite) removed(t *testing.T) {
	rows, others, next := quarters(0, 50), quarters(3, 60), quarters(3000, 3010)
	dir := t.TempDir()
	path := s.path(dir, october)
	s.Write(t, path, Plain(rows))
	s.Write(t, s.path(dir, november), Plain(next))
	source := s.open(t, dir, "UTC")
	before := look(t, source)
	date := pool.DayOf(first)
	old, _, err := read(t.Context(), before, date, kept{})
	require.NoError(t, err)
	require.NoError(t, os.Remove(path))
	requireDays(t, look(t, source), Expect(next))
	s.Write(t, path, Plain(others))
	state := look(t, source)
	holds, err := state.Holds(t.Context(), date, old.known)
	require.NoError(t, err)
	require.False(t, holds)
	requireDays(t, state, Expect(others, next))
}
