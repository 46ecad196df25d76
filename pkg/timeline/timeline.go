// Package timeline turns the rows of snapshots into spans per GPU, a segment (Day) a UTC day, and keeps them:
// in memory, and on disk in the plugin's own cache directory.
package timeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"

	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
)

// Options say what a timeline is made from and where it is kept.
type Options struct {
	Snapshots *snapshots.Dir  // closed with the timeline
	Zone      *localtime.Zone // of the collector
	MaxBytes  int64           // memory for segments

	// CacheDir keeps the segments of finished days over restarts; "" keeps them in memory only.
	CacheDir     string
	MaxDiskBytes int64
}

// Timeline serves views of a pool's snapshots. It is safe for concurrent use.
type Timeline struct {
	dir       *snapshots.Dir
	zone      *localtime.Zone
	names     *Names
	cache     *memory
	disk      *disk         // nil without a cache directory
	diskError error         // why there is none though it was asked for
	slots     chan struct{} // bounds the days that are read at once
	busy      atomic.Int64  // loads under way

	editsLock sync.Mutex
	edits     map[uint64]uint64 // State.Rewritten by inode, as last seen
}

// New returns a timeline. Nothing is read yet. Without a cache directory that can be used, CacheError says why, and segments
// are kept in memory only.
func New(o Options) *Timeline {
	t := &Timeline{dir: o.Snapshots, zone: o.Zone, names: NewNames(), cache: newMemory(o.MaxBytes), slots: make(chan struct{}, runtime.GOMAXPROCS(0)), edits: map[uint64]uint64{}}
	if o.CacheDir != "" {
		t.disk, t.diskError = openDisk(o.CacheDir, o.Snapshots.Path(), o.Zone.Rules(), o.MaxDiskBytes)
	}
	return t
}

// Close ends everything the timeline has open. Loads under way end with an error.
func (t *Timeline) Close() error {
	if t.disk != nil {
		return errors.Join(t.dir.Close(), t.disk.close())
	}
	return t.dir.Close()
}

// Names returns the texts of the timeline.
func (t *Timeline) Names() *Names { return t.names }

// CacheError says why the cache directory cannot be used, or the last write to it failed; nil when all is well.
func (t *Timeline) CacheError() error {
	if t.disk == nil {
		return t.diskError
	}
	return t.disk.failure()
}

// Load returns a view that holds every snapshot of the UTC days that [from, to] touches, and what is needed of the days around
// them so that neighbours, cadence and gaps at the edges are known: the snapshot before from, and the one after to, if they
// are less than a day away.
//
// A file or a day that cannot be read becomes a notice of the view, and the rest answers. Errors: the directory cannot be
// read, it holds no month file, none of its files can be read, or none of the window's days.
func (t *Timeline) Load(ctx context.Context, from, to pool.Micros) (*View, error) {
	ctx, span := otel.Tracer("gpureports").Start(ctx, "gpureports load")
	defer span.End()
	t.busy.Add(1)
	defer t.busy.Add(-1)
	for {
		v, files, err := t.load(ctx, from, to)
		if err != nil || !slices.ContainsFunc(files, file.surprises) {
			return v, err
		}
	}
}

// longestSlice is how far a slice that holds the beginning of a window can lie ahead of it.
const longestSlice = pool.Hour

func (t *Timeline) load(ctx context.Context, from, to pool.Micros) (*View, []file, error) {
	files, notices, err := t.files(ctx)
	if err != nil {
		return nil, nil, err
	}
	first, last := pool.DayOf(from-longestSlice), pool.DayOf(to)
	var work tally
	days, err := t.days(ctx, first, last, files, &work)
	if err != nil {
		return nil, nil, err
	}
	dayBefore := func() error {
		first--
		before, err := t.days(ctx, first, first, files, &work)
		days = append(before, days...)
		return err
	}
	if first == pool.DayOf(from) && (len(days) == 0 || days[0].Date > first || !days[0].reaches(from-longestSlice)) {
		if err := dayBefore(); err != nil {
			return nil, nil, err
		}
	}
	for len(days) > 0 && days[0].Date == first && days[0].cadence == 0 && first > pool.DayOf(from)-2 { // its cadence is the day's before it
		if err := dayBefore(); err != nil {
			return nil, nil, err
		}
	}
	if n := len(days); n == 0 || len(days[n-1].Times) == 0 || days[n-1].Times[len(days[n-1].Times)-1] <= to {
		after, err := t.days(ctx, last+1, last+1, files, &work)
		if err != nil {
			return nil, nil, err
		}
		days = append(days, after...)
	}
	if err := work.failures.all(pool.Window{From: from, To: to}, days); err != nil {
		return nil, nil, err
	}
	notices = append(notices, work.failures.notices()...)
	for _, d := range days {
		notices = append(notices, d.notices()...)
	}
	v := newView(t.names, days, notices)
	v.Work = work.total()
	return v, files, nil
}

// reaches tells whether the day has a snapshot before t.
func (d *Day) reaches(t pool.Micros) bool { return len(d.Times) > 0 && d.Times[0] < t }

// days loads those of the given UTC days that the files reach into, in parallel. The newest goes first: it alone may have to be
// read from its file. A day that cannot be read is left out, and one of the work's failures.
func (t *Timeline) days(ctx context.Context, first, last int32, files []file, work *tally) ([]*Day, error) {
	dates := slices.DeleteFunc(t.dates(files), func(date int32) bool { return date < first || date > last })
	days := make([]*Day, len(dates))
	group, groupCtx := parallel.WithContext(ctx)
	group.SetLimit(cap(t.slots))
	for i, date := range slices.Backward(dates) {
		if groupCtx.Err() != nil {
			break
		}
		group.Go(func() (err error) {
			if days[i], err = t.day(groupCtx, date, files, work); err != nil && groupCtx.Err() == nil {
				work.failures.add(date, err)
				return nil
			}
			return err
		})
	}
	if err := cmp.Or(group.Wait(), ctx.Err()); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(days, func(d *Day) bool { return d == nil }), nil
}

// Range returns the first and the newest snapshot of all files; ok is false when there is none.
func (t *Timeline) Range(ctx context.Context) (first, newest pool.Micros, ok bool, err error) {
	files, _, err := t.files(ctx)
	if err != nil {
		return 0, 0, false, err
	}
	dates := t.dates(files)
	// the dates have a day's margin, and a day can be without a snapshot
	for i := 0; i < len(dates) && !okDay(first); i++ {
		d, err := t.day(ctx, dates[i], files, new(tally))
		if ctx.Err() != nil {
			return 0, 0, false, ctx.Err()
		}
		if err == nil && len(d.Times) > 0 { // a day that cannot be read is told by who asks for it
			first = d.Times[0]
		}
	}
	for i := len(dates) - 1; i >= 0 && !okDay(newest); i-- {
		d, err := t.day(ctx, dates[i], files, new(tally))
		if ctx.Err() != nil {
			return 0, 0, false, ctx.Err()
		}
		if err == nil && len(d.Times) > 0 {
			newest = d.Times[len(d.Times)-1]
		}
	}
	return first, newest, okDay(newest), nil
}

func okDay(t pool.Micros) bool { return t != 0 }

// files returns the month files with their states, and a notice for each one that cannot be read.
func (t *Timeline) files(ctx context.Context) ([]file, []Notice, error) {
	listed, err := t.dir.Files(ctx)
	if err != nil {
		return nil, nil, err
	}
	if len(listed) == 0 {
		return nil, nil, pool.SourceError("no month file gpu_state_YYYY-MM.db in the snapshot directory %s: check the setting snapshotDir and that the collector runs", t.dir.Path())
	}
	var files []file
	var notices []Notice
	var failure error
	for _, f := range listed {
		state, err := f.State(ctx)
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		if err != nil {
			failure = err
			notices = append(notices, Notice{true, err.Error()})
			continue
		}
		if warning := f.Warning(); warning != "" {
			notices = append(notices, Notice{true, warning})
		}
		if state.Unordered {
			notices = append(notices, Notice{false, fmt.Sprintf("%s is not in the order of time: it is read in full", f.Name)})
		}
		if state.LastText == "" && state.First <= state.Last {
			notices = append(notices, Notice{true, fmt.Sprintf("%s: none of its rows has a readable timestamp: left out", f.Name)})
		}
		files = append(files, file{f, state})
		t.noteEdits(f.Name, state)
	}
	if len(files) == 0 {
		return nil, nil, failure
	}
	return files, notices, nil
}

// noteEdits drops what is kept on disk of a file that was changed otherwise than by rows appended: a sample of its rows
// need not show it.
func (t *Timeline) noteEdits(name string, state snapshots.State) {
	if t.disk == nil {
		return
	}
	t.editsLock.Lock()
	defer t.editsLock.Unlock()
	if known, ok := t.edits[state.Inode]; ok && known != state.Rewritten {
		begin, end := t.month(name)
		for date := begin; date <= end; date++ {
			t.disk.drop(t.disk.name(date))
		}
	}
	t.edits[state.Inode] = state.Rewritten
}

// month returns the UTC days that a month file is for, with the days around them that its rows can lie in.
func (t *Timeline) month(name string) (first, last int32) {
	text := strings.TrimSuffix(strings.TrimPrefix(name, "gpu_state_"), ".db")
	begin, err := time.Parse("2006-01", text)
	if err != nil {
		return 0, -1 // a month that no calendar has
	}
	first = pool.DayOf(begin.UnixMicro())
	return first - 2, first + 33
}

// dates returns the UTC days that the files' rows can lie in, ascending, with a day's margin.
func (t *Timeline) dates(files []file) []int32 {
	found := map[int32]bool{}
	for _, f := range files {
		for firstText, lastText := range f.state.Texts() {
			first, errFirst := t.zone.NewResolver().Read([]byte(firstText))
			last, errLast := t.zone.NewResolver().Read([]byte(lastText))
			if errFirst != nil || errLast != nil {
				continue // not reached: they can be read
			}
			for date := pool.DayOf(first.Time) - 1; date <= pool.DayOf(last.Time)+1; date++ {
				found[date] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// notices tells what was odd about the day's timestamps.
func (d *Day) notices() []Notice {
	var all []Notice
	add := func(n uint32, text string) {
		if n > 0 {
			all = append(all, Notice{false, fmt.Sprintf("%s: %d %s", dateText(d.Date), n, text)})
		}
	}
	add(d.notes.Back, "snapshots stand out of order in their file: sorted by time")
	add(d.notes.Missing, "snapshots have a local time that does not exist: read with the offset before the change")
	add(d.notes.Unreadable, "rows have no readable timestamp: left out")
	add(d.notes.Twice, "snapshots of the repeated hour may be two with the same text: counted as one")
	return all
}
