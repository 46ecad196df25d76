package query

import (
	"regexp"
	"slices"
	"sort"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/pool"
)

const (
	bucketAuto   = "auto"
	bucketWindow = "window"
)

// BucketNames are the words of the field `bucket`.
var BucketNames = append([]string{bucketAuto, bucketWindow},
	each(len(localtime.Buckets), func(i int) string { return localtime.Buckets[i].Name })...)

// chooseBucket returns the bucket of a series, nil for the whole window. `auto` is the smallest that is not shorter
// than the request's interval, holds whole slices and is long enough for the view; for an alert rule the window.
func (p *Plan) chooseBucket(name string, interval time.Duration) (*localtime.Bucket, error) {
	auto := name == "" || name == bucketAuto
	if name == bucketWindow || auto && p.FromAlert {
		return nil, nil
	}
	var chosen *localtime.Bucket // the longest so far, if it is shorter than the interval
	possible, tooShort := "", false
	for _, b := range localtime.Buckets {
		if slice := p.Env.SliceMinutes; b.Minutes < p.view.BucketMinutes || slice > 0 && b.Minutes%slice != 0 {
			tooShort = tooShort || b.Name == name && b.Minutes < p.view.BucketMinutes
			continue
		}
		b.YearStart = p.Env.YearStart
		possible += ", " + b.Name
		switch {
		case b.Name == name:
			return &b, nil
		case b.Minutes < 15, b.Minutes > 7*24*60: // `auto` is 15 minutes to a week
		case chosen == nil, time.Duration(chosen.Minutes)*time.Minute < interval:
			chosen = &b
		}
	}
	switch {
	case auto:
		return chosen, nil
	case tooShort:
		return nil, pool.BadQuery("%s: bucket %s is too short; valid values: auto, window%s", p.name(), name, possible)
	}
	return nil, pool.BadQuery("bucket %s is not a multiple of the slice of %d minutes; valid values: auto, window%s", name,
		p.Env.SliceMinutes, possible)
}

// maxBuckets bounds the buckets of one answer: 5 minutes over ten years.
const maxBuckets = 1_100_000

// Buckets are the consecutive buckets of a series. Bucket i is [Starts[i], Starts[i+1]): Starts has one entry more than
// there are buckets.
type Buckets struct {
	Starts []pool.Micros
	Whole  bool // one bucket, the window itself
}

// Buckets returns the buckets from the one that holds `from` to the one that holds the window's end. `from` is the
// window's beginning, or the beginning of its first slice, which can lie before it.
func (p *Plan) Buckets(from pool.Micros) (Buckets, error) {
	if p.Bucket == nil {
		return Buckets{Starts: []pool.Micros{min(from, p.Window.From), p.Window.To + 1}, Whole: true}, nil
	}
	if n := (p.Window.To - from) / (pool.Micros(p.Bucket.Minutes) * pool.Minute); n > maxBuckets {
		return Buckets{}, pool.BadQuery("bucket %s gives %d points per series over this time range: choose a longer one",
			p.Bucket.Name, n)
	}
	starts := []pool.Micros{p.Bucket.Floor(from, p.Location)}
	for last := starts[0]; last <= p.Window.To; starts = append(starts, last) {
		last = p.Bucket.Next(last, p.Location)
	}
	return Buckets{Starts: starts}, nil
}

// MaxCells bounds the numbers of one answer: points of series, cells of tables. At 100 bytes each it takes 500 MB to
// compute.
const MaxCells = 5_000_000

// CheckCells refuses more groups over the given number of buckets than fit in memory.
func CheckCells(groups, buckets int) error {
	if groups*buckets > MaxCells {
		return pool.BadQuery("%d groups or more over %d buckets are too many: group by less, filter, or choose a longer "+
			"bucket", groups, buckets)
	}
	return nil
}

// Len is the number of buckets.
func (b Buckets) Len() int { return len(b.Starts) - 1 }

// Of returns the bucket that holds t: the first one if t is earlier than all, the number of buckets if t is later.
func (b Buckets) Of(t pool.Micros) int {
	return sort.Search(b.Len(), func(i int) bool { return b.Starts[i+1] > t })
}

// Keep reports whether the i-th bucket is drawn: with completeBucketsOnly none that begins before the window, ends
// after it, or has no snapshot at or after its end. newest is the newest snapshot known.
func (p *Plan) Keep(b Buckets, i int, newest pool.Micros) bool {
	return !p.CompleteBucketsOnly || b.Whole || b.Starts[i] >= p.Window.From && b.Starts[i+1] <= p.Window.To &&
		newest >= b.Starts[i+1]
}

// Hours returns the local hours that the window touches, and of each its weekday (0 = Monday) and hour.
func (p *Plan) Hours() (Buckets, [][2]int, error) {
	hourly := *p
	hourly.Bucket = &localtime.Bucket{Name: "1h", Minutes: 60}
	buckets, err := hourly.Buckets(p.Window.From)
	if err != nil {
		return buckets, nil, err
	}
	hours := make([][2]int, buckets.Len())
	for i := range hours {
		local := pool.Time(buckets.Starts[i]).In(p.Location)
		hours[i] = [2]int{(int(local.Weekday()) + 6) % 7, local.Hour()}
	}
	return buckets, hours, nil
}

// Legend is a template of the names of series, such as "{{device}} {{metric}}": a key in double braces becomes its
// value. The empty one leaves the names to the answer.
type Legend string

// LegendMetric is the key of the metric in a legend. The other keys are groupings.
const LegendMetric = "metric"

const longestLegend = 200

var legendKey = regexp.MustCompile(`\{\{\s*(.*?)\s*\}\}`)

// Has reports whether the template has a key.
func (l Legend) Has(key string) bool { return slices.Contains(l.keys(), key) }

func (l Legend) keys() (keys []string) {
	for _, found := range legendKey.FindAllStringSubmatch(string(l), -1) {
		keys = append(keys, found[1])
	}
	return keys
}

// Name fills the values of the keys in.
func (l Legend) Name(value func(key string) string) string {
	return strings.TrimSpace(legendKey.ReplaceAllStringFunc(string(l), func(found string) string {
		return value(legendKey.FindStringSubmatch(found)[1])
	}))
}

// legend checks the template of a view whose series have names.
func (p *Plan) legend() error {
	if !p.knows("legend") {
		return nil
	}
	legend := Legend(strings.TrimSpace(p.Model.Legend))
	if n := utf8.RuneCountInString(string(legend)); n > longestLegend {
		return pool.BadQuery("%s: legend: at most %[3]d characters; got %[2]d", p.name(), n, longestLegend)
	}
	possible := append(slices.Clone(p.GroupBy), LegendMetric) // the labels of the answer's series, and the metric
	if p.Frame == FrameStateTimeline {
		possible = []string{"device", "machine", "gpu"}
	}
	for _, key := range legend.keys() {
		if slices.Contains(possible, key) {
			continue
		}
		if slices.Contains(p.view.GroupBy, key) {
			return pool.BadQuery("%s: legend: {{%s}} has no value unless the query is grouped by %s; valid keys: %s",
				p.name(), key, key, braced(possible))
		}
		return pool.BadQuery("%s: legend: unknown key {{%s}}; valid keys: %s", p.name(), key, braced(possible))
	}
	p.Legend = legend
	return nil
}

func braced(keys []string) string { return "{{" + strings.Join(keys, "}}, {{") + "}}" }
