package check

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/samplepool"
)

// measured are the clocks as the finding's details tell them.
func measured(t *testing.T, f Finding) map[string]map[string]any {
	t.Helper()
	all := map[string]map[string]any{}
	for _, c := range f.Details["accessPoints"].([]map[string]any) {
		all[c["accessPoint"].(string)] = c
	}
	return all
}

// The made-up pool knows how wrong each clock truly is.
func TestClocksOfHardPools(t *testing.T) {
	named := 0
	for seed := range uint64(2) {
		o := samplepool.Hard()
		o.Seed, o.Machines = seed, 14
		o.End = o.Start.AddDate(0, 0, 7)
		p, dir := made(t, o)
		found := look(t, withAds(open(t, dir, "UTC", o.End), documents(t, p)...))
		clocks := measured(t, found["clocks"])
		for _, ap := range p.AccessPoints() {
			c := clocks[ap.Name]
			require.NotNil(t, c, "%s", ap.Name)
			require.GreaterOrEqual(t, c["runs"], enough)
			require.InDelta(t, ap.ClockAhead, c["aheadSeconds"], 5+c["withinSeconds"].(float64), "%s", ap.Name)
			f, warned := found["clock of "+ap.Name]
			switch off := math.Abs(float64(ap.ClockAhead)); {
			case off >= 80: // 75 s of 900 are 8 % of the runs' starts
				require.True(t, warned, "%s is %d s ahead: %v", ap.Name, ap.ClockAhead, c)
				require.Equal(t, Warning, f.Severity)
				require.Contains(t, f.Text, map[bool]string{true: "ahead of the collector's",
					false: "behind the collector's"}[ap.ClockAhead > 0])
				require.InDelta(t, ap.ClockAhead, f.Details["aheadSeconds"], 10)
				named++
			case off <= 20: // 15 s of 900 are 2 %
				require.False(t, warned, "%s is %d s ahead: %v", ap.Name, ap.ClockAhead, c)
			}
		}
	}
	require.GreaterOrEqual(t, named, 4, "each pool has two clocks that are nearly two minutes off")
}

// shifted are documents with the dates of some ads moved.
func shifted(t *testing.T, documents [][]byte, by time.Duration, schedd func(string) bool) (all [][]byte) {
	t.Helper()
	for _, document := range documents {
		var ad map[string]any
		decoder := json.NewDecoder(bytes.NewReader(document))
		decoder.UseNumber()
		require.NoError(t, decoder.Decode(&ad))
		name, _, _ := strings.Cut(ad["GlobalJobId"].(string), "#")
		if schedd(name) {
			for _, key := range []string{"RecordTime", "JobStartDate", "JobLastStartDate", "JobCurrentStartDate",
				"CompletionDate", "EnteredCurrentStatus", "LastVacateTime", "EpochWriteDate"} {
				if value, ok := ad[key].(json.Number); ok {
					seconds, err := value.Int64()
					require.NoError(t, err)
					ad[key] = seconds + int64(by.Seconds())
				}
			}
		}
		text, err := json.Marshal(ad)
		require.NoError(t, err)
		all = append(all, text)
	}
	return all
}

// A clock that is farther off than linking tolerates is found all the same; and when all are off alike, it is the
// collector's.
func TestClocksFarOff(t *testing.T) {
	p, dir := made(t, good())
	ads := documents(t, p)
	first := p.AccessPoints()[0].Name
	in := open(t, dir, "UTC", p.Options().End.Add(time.Hour))
	for _, by := range []time.Duration{10 * time.Minute, -25 * time.Minute} {
		found := look(t, withAds(in, shifted(t, ads, by, func(s string) bool { return s == first })...))
		require.InDelta(t, by.Seconds(), found["clock of "+first].Details["aheadSeconds"], 15)
		require.Equal(t, OK, found["clocks"].Severity)
		require.Contains(t, found["clocks"].Text, "those of 2 of 3 access points agree")

		found = look(t, withAds(in, shifted(t, ads, by, func(string) bool { return true })...))
		require.Equal(t, Warning, found["clocks"].Severity)
		require.Contains(t, found["clocks"].Text, "it is the collector's clock that is wrong")
		require.NotContains(t, found, "clock of "+first)
	}
}

func TestClocksTooFewRuns(t *testing.T) {
	p, dir := made(t, good())
	in := open(t, dir, "UTC", p.Options().End)
	in.Last = 2 * pool.Minute
	found := look(t, withAds(in, documents(t, p)[:5]...))
	require.Equal(t, Note, found["clocks"].Severity)
	require.Contains(t, found["clocks"].Text, "no access point has 20 runs")
}

// fit against trying all values.
func TestFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var intervals []interval
		for range rapid.IntRange(1, 12).Draw(t, "n") {
			low := rapid.Int64Range(-20, 20).Draw(t, "low")
			i := interval{low, low + rapid.Int64Range(0, 15).Draw(t, "length")}
			switch rapid.IntRange(0, 4).Draw(t, "open") {
			case 0:
				i.low = math.MinInt64
			case 1:
				i.high = math.MaxInt64
			}
			intervals = append(intervals, i)
		}
		in := func(doubled pool.Micros) (n int) { // half units, so that middles are tried too
			for _, i := range intervals {
				if (i.low == math.MinInt64 || 2*i.low <= doubled) && (i.high == math.MaxInt64 || doubled <= 2*i.high) {
					n++
				}
			}
			return n
		}
		most := 0
		for v := pool.Micros(-100); v <= 100; v++ {
			most = max(most, in(v))
		}
		value, within := fit(intervals)
		longest, length := 0, 0 // stretch of values that lie in the most
		for v := pool.Micros(-100); v <= 100; v++ {
			if length++; in(v) < most {
				length = 0
			}
			longest = max(longest, length)
		}
		require.GreaterOrEqual(t, 4*within+4, pool.Micros(longest-1), "the widest")
		if value > -pool.Day/4 && value < pool.Day/4 { // no open end
			require.Equal(t, most, max(in(2*value), in(2*value+1), in(2*value-1)), fmt.Sprint(intervals))
		}
	})
}
