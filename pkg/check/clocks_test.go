package check

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
	"github.com/chtc/gpureports/pkg/pool"
)

// The made-up pool knows how wrong each clock truly is.
func TestClocksOfHardPools(t *testing.T) {
	warned := 0
	for seed := range uint64(2) {
		o := samplepool.Hard()
		o.Seed, o.Machines = seed, 14
		o.End = o.Start.AddDate(0, 0, 7)
		p, dir := made(t, o)
		found := look(t, withAds(open(t, dir, "UTC", o.End), documents(t, p)...))
		require.Len(t, found["clocks"].Details["accessPoints"], len(p.AccessPoints()))
		for _, ap := range p.AccessPoints() {
			f, told := found["clock of "+ap.Name]
			switch off := math.Abs(float64(ap.ClockAhead)); {
			case off >= 60: // 60 s of 900 are 7 % of the runs' starts
				require.True(t, told, "%s is %d s ahead: %v", ap.Name, ap.ClockAhead, found["clocks"])
				for _, key := range []string{"lowSeconds", "highSeconds"} {
					require.InDelta(t, ap.ClockAhead, f.Details[key], 25, ap.Name)
				}
				largest := max(-f.Details["lowSeconds"].(float64), f.Details["highSeconds"].(float64))
				require.Equal(t, map[bool]string{true: Warning, false: Note}[largest > 120], f.Severity, f.Text)
				warned++
			case off <= 20: // 15 s of 900 are 2 %
				require.False(t, told, "%s is %d s ahead: %v", ap.Name, ap.ClockAhead, f)
			}
		}
	}
	require.GreaterOrEqual(t, warned, 4, "each pool has two clocks that are nearly two minutes off")
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

// A clock that is farther off than linking tolerates is found anyway; and when all are off alike, it is the
// collector's.
func TestClocksFarOff(t *testing.T) {
	p, dir := made(t, good())
	ads := documents(t, p)
	first := p.AccessPoints()[0].Name
	in := open(t, dir, "UTC", p.Options().End.Add(time.Hour))
	for _, by := range []time.Duration{10 * time.Minute, -25 * time.Minute} {
		found := look(t, withAds(in, shifted(t, ads, by, func(s string) bool { return s == first })...))
		f := found["clock of "+first]
		require.Equal(t, Warning, f.Severity)
		require.InDelta(t, by.Seconds(), f.Details["medianSeconds"], 20)
		require.Contains(t, f.Text, "are corrected")
		require.Equal(t, OK, found["clocks"].Severity)
		require.Contains(t, found["clocks"].Text, "those of 2 of 3 access points agree")
		require.Greater(t, found["links"].Details["linkRate"], 95.0, "links are told with the clocks corrected")

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
	require.Contains(t, found["clocks"].Text, "of no access point are there enough runs")
}
