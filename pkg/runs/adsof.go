package runs

import (
	"context"
	"slices"
	"sort"

	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
)

// Ads are the job ads that are known of an observation's jobs.
type Ads struct {
	jobs     [][]jobs.Ad          // by job number; nil if the job has none, or was not requested
	records  [][]record           // of jobs
	machines []onMachine          // for runs without a GlobalJobId, by machine
	short    []shortDay           // by machine and day, of any job
	others   map[string][]jobs.Ad // by GlobalJobId, of jobs whose epoch ads do not say how a run ended
	clocks   clocks
	epochs   bool // there are epoch ads among them
	answers  []adAnswer
}

// adAnswer describes the answer to one lookup.
type adAnswer struct {
	version uint64      // see jobs.Result
	holds   func() bool // nil if the lookup must be made again
}

// of returns the records of a job; none for nil.
func (a *Ads) of(job int32) []record {
	if a == nil {
		return nil
	}
	return a.records[job]
}

// Date returns a date of one of the ads, corrected by the error of its access point's clock; 0 = not stored.
func (a *Ads) Date(ad *jobs.Ad, date jobs.Date) pool.Micros {
	r := recordOf(ad)
	r.correct(a.clocks[ad.AccessPoint])
	return r.at(date)
}

// read reads the ads of jobs and of short runs.
func (a *Ads) read(ctx context.Context) (err error) {
	if a.records, err = recordsOf(ctx, a.jobs); err != nil {
		return err
	}
	if err = a.readShort(ctx); err != nil {
		return err
	}
	for _, lists := range a.lists() {
		for _, list := range lists {
			a.epochs = a.epochs || slices.ContainsFunc(list, func(r record) bool { return r.Kind == jobs.Epoch })
		}
	}
	return nil
}

// on reads the ads on a machine, for runs without a GlobalJobId, by the access points' clocks.
func (a *Ads) on(machine int, into []record) []record {
	first := sort.Search(len(a.machines), func(i int) bool { return a.machines[i].machine >= machine })
	for _, of := range a.machines[first:] {
		if of.machine != machine {
			break
		}
		for i := range of.ads {
			r := recordOf(&of.ads[i])
			r.correct(a.clocks[r.AccessPoint])
			into = append(into, r)
		}
	}
	return into
}

// onMachine are ads on a machine, by its number, on a UTC day.
type onMachine struct {
	machine int
	day     int32
	ads     []jobs.Ad
}

// together is how many lists of ads one goroutine takes at a time.
const together = 100

// recordsOf reads lists of ads.
func recordsOf(ctx context.Context, lists [][]jobs.Ad) ([][]record, error) {
	found := make([][]record, len(lists))
	err := parallel.Chunks(ctx, len(lists), together, func(_ *struct{}, first, end int) {
		some := lists[first:end]
		n := 0
		for _, list := range some {
			n += len(list)
		}
		all := make([]record, 0, n)
		for i, list := range some {
			begin := len(all)
			for k := range list {
				all = append(all, recordOf(&list[k]))
			}
			found[first+i] = all[begin:len(all):len(all)]
		}
	})
	return found, err
}

// lists are the records of jobs and of short runs.
func (a *Ads) lists() [2][][]record {
	short := make([][]record, len(a.short))
	for i := range a.short {
		short[i] = a.short[i].records
	}
	return [...][][]record{a.records, short}
}

// correct takes the clocks' errors out of the records' times. Errors are ctx's.
func (a *Ads) correct(ctx context.Context) error {
	off := clocks{}
	for point, days := range a.clocks {
		for _, c := range days {
			if c.Error != 0 {
				off[point] = days
				break
			}
		}
	}
	if len(off) == 0 {
		return nil
	}
	for _, lists := range a.lists() {
		err := parallel.Chunks(ctx, len(lists), together, func(_ *struct{}, from, end int) {
			for _, list := range lists[from:end] {
				for i := range list {
					if days := off[list[i].AccessPoint]; days != nil {
						list[i].correct(days)
					}
				}
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Epochs reports whether there are epoch ads among them.
func (a *Ads) Epochs() bool { return a.epochs }

// Holds reports whether asking the source again would change nothing.
func (a *Ads) Holds() bool {
	return !slices.ContainsFunc(a.answers, func(of adAnswer) bool { return of.holds == nil || !of.holds() })
}

// onlyClocks has the ads' evidence about clocks, without the ads.
func (a *Ads) onlyClocks() *Ads {
	return &Ads{clocks: a.clocks, answers: a.answers, epochs: a.epochs}
}
