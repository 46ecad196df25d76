package snapshotstest

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
)

// Stamped is a row with the time that its timestamp is meant to say.
type Stamped struct {
	At pool.Micros
	Row
}

// Plain returns the rows without their times.
func Plain(rows []Stamped) (plain []Row) {
	for _, r := range rows {
		plain = append(plain, r.Row)
	}
	return plain
}

// Day is a UTC day as a source returns it: its snapshots, each with its rows as texts.
type Day []Shot

// Shot is a snapshot.
type Shot struct {
	Time, End pool.Micros
	Rows      []string
}

// Expect finds by plain loops what a source gives of the rows of files, in the order of the files, by UTC day.
func Expect(files ...[]Stamped) map[int32]Day {
	all := slices.Concat(files...)
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(all[a].At, all[b].At) })
	of := make([]int, len(all)) // the snapshot of each row
	var shots []Shot
	first := map[string]pool.Micros{} // the first row of each slot and GPU in the snapshot
	for n, i := range order {
		r := all[i]
		slot := fmt.Sprint(r.Row["Machine"], "|", r.Row["Name"], "|", r.Row["AssignedGPUs"])
		began, known := first[slot]
		if n == 0 || r.At >= shots[len(shots)-1].Time+60_000_000 && (r.At >= shots[len(shots)-1].End+20_000_000 ||
			r.At >= shots[len(shots)-1].Time+300_000_000 || known && r.At >= began+60_000_000) {
			shots, known = append(shots, Shot{Time: r.At}), false
			clear(first)
		}
		if !known {
			first[slot] = r.At
		}
		of[i], shots[len(shots)-1].End = len(shots)-1, r.At
	}
	days := map[int32]Day{}
	for n, shot := range shots {
		for i, r := range all {
			if of[i] == n {
				shot.Rows = append(shot.Rows, line(texts(r.Row), usageOf(r.Row)))
			}
		}
		days[pool.DayOf(shot.Time)] = append(days[pool.DayOf(shot.Time)], shot)
	}
	return days
}

func texts(r Row) (columns [snapshots.Columns]string) {
	for i, name := range snapshots.ColumnNames {
		if r[name] != nil {
			columns[i] = fmt.Sprint(r[name])
		}
	}
	return columns
}

func usageOf(r Row) float64 {
	if u, ok := r[snapshots.UsageColumn].(float64); ok {
		return u
	}
	return math.NaN()
}

func line(columns [snapshots.Columns]string, usage float64) string {
	return fmt.Sprintf("%s usage %v", strings.Join(columns[:], "|"), usage)
}

// tape is a visitor that keeps a day. If the reading is resumed, it reuses the part of the day that it already has.
type tape struct {
	before  Day
	resumed bool
	rows    []snapshots.Row
	day     Day
	usage   bool
}

func (v *tape) Begin(resumed bool) {
	if v.resumed = resumed; resumed {
		v.day = slices.Clone(v.before[:len(v.before)-1])
	}
}

func (v *tape) Distinct(row snapshots.Row) { v.rows = append(v.rows, slices.Clone(row)) }

func (v *tape) Snapshot(s snapshots.Snapshot) error {
	shot := Shot{Time: s.Time, End: s.End}
	for i, n := range s.Rows {
		usage := math.NaN()
		if v.usage {
			usage = s.Usage[i]
		}
		shot.Rows = append(shot.Rows, line(v.rows[n].Columns(), usage))
	}
	if n := len(v.day); n > 0 && v.day[n-1].Time >= s.Time {
		return fmt.Errorf("a snapshot at %d after one at %d", s.Time, v.day[n-1].Time)
	}
	v.day = append(v.day, shot)
	return nil
}

// kept is a day as it was read, and the key that recognizes it.
type kept struct {
	day   Day
	known snapshots.Known
}

// read reads a day, continuing from the kept part.
func read(ctx context.Context, s snapshots.State, date int32, before kept) (now kept, resumed bool, err error) {
	v := tape{before: before.day, usage: true}
	reading, err := s.Rows(ctx, date, before.known, &v)
	return kept{v.day, snapshots.Known{Key: reading.Key, State: s}}, v.resumed, err
}

// requireDays reads every day of a state and compares it with the expected one.
func requireDays(t testing.TB, s snapshots.State, want map[int32]Day) {
	t.Helper()
	dates := s.Dates()
	require.True(t, slices.IsSortedFunc(dates, cmp.Compare[int32]))
	for date := range want {
		require.Contains(t, dates, date)
	}
	for _, date := range dates {
		now, resumed, err := read(t.Context(), s, date, kept{})
		require.NoError(t, err)
		require.False(t, resumed)
		require.Equal(t, want[date], now.day, "day %d", date)
		requireKey(t, s, date, now)
	}
}

// requireKey checks what the key of a reading promises.
func requireKey(t testing.TB, s snapshots.State, date int32, now kept) {
	t.Helper()
	key, err := s.Key(t.Context(), date)
	require.NoError(t, err)
	require.Equal(t, key.Content, now.known.Content, "without reading the rows")
	for _, k := range []snapshots.Known{now.known, {Key: now.known.Key}} {
		holds, err := s.Holds(t.Context(), date, k)
		require.NoError(t, err)
		require.True(t, holds)
	}
	holds, err := s.Holds(t.Context(), date, snapshots.Known{})
	require.NoError(t, err)
	require.False(t, holds)
}
