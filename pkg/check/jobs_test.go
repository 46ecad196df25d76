package check

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/jobstest"
	"github.com/chtc/gpureports/pkg/pool"
)

func TestSchema(t *testing.T) {
	p, dir := made(t, good())
	ads, err := p.Ads(t.Context())
	require.NoError(t, err)
	var legacy, refactored, mixed [][]byte
	for i, ad := range ads {
		if ad.Epoch {
			continue
		}
		legacy, refactored = append(legacy, ad.Legacy), append(refactored, ad.JSON)
		mixed = append(mixed, [][]byte{ad.Legacy, ad.JSON}[i%2])
	}
	in := open(t, dir, "UTC", p.Options().End)
	for text, documents := range map[string][][]byte{"legacy one": legacy, "refactored one": refactored, "mixed": mixed,
		"none of": nil} {
		found := look(t, withAds(in, documents...))
		require.Contains(t, found["schema"].Text, text)
		require.Equal(t, documents == nil, found["schema"].Severity == Note)
	}
}

func TestLag(t *testing.T) {
	snapshot := now.UnixMicro() - 10*pool.Minute
	for _, c := range []struct {
		newest   time.Time
		severity string
		text     string
	}{
		{time.Time{}, Warning, "no job ads found"},
		{now.Add(-30 * time.Minute), OK, "20 min older than the newest snapshot"},
		{now.Add(-5 * time.Minute), OK, "newer than the newest snapshot"},
		{now.Add(-5 * time.Hour), Warning, "4 h 50 min before the snapshots"},
		{now.Add(time.Hour), Warning, "of the future"},
	} {
		found := lagFinding(c.newest, snapshot, now.UnixMicro())
		require.Equal(t, c.severity, found.Severity, found.Text)
		require.Contains(t, found.Text, c.text)
	}
}

func TestLinks(t *testing.T) {
	week := pool.Window{To: 7 * pool.Day}
	for _, c := range []struct {
		rate     float64
		schemas  schemas
		severity string
		text     string
	}{
		{99, schemas{jobs: 100, without: 1}, OK, "explain 99.0 %"},
		{70, schemas{jobs: 100, without: 60}, Warning, "ads of all access points"},
		{40, schemas{jobs: 100, without: 5}, Warning, "collect epoch ads"},
		{40, schemas{jobs: 100, without: 5}, Warning, "Below 50%"},
		{math.NaN(), schemas{jobs: 4}, Note, "fewer than 20"},
	} {
		found := linksFinding(c.rate, c.schemas, week)
		require.Equal(t, c.severity, found.Severity, found.Text)
		require.Contains(t, found.Text, c.text)
	}
}

// Ads that lack exit codes and peaks of memory, as a job file of an earlier version has them, are named with the store.
func TestAdsWithoutAttributes(t *testing.T) {
	p, dir := made(t, good())
	in := open(t, dir, "UTC", p.Options().End)
	ads := documents(t, p)
	require.NotContains(t, look(t, withAds(in, ads...)), "attributes")
	without := func(names ...string) (all [][]byte) {
		for _, text := range ads {
			var ad map[string]any
			require.NoError(t, json.Unmarshal(text, &ad))
			for _, name := range names {
				delete(ad, name)
			}
			text, err := json.Marshal(ad)
			require.NoError(t, err)
			all = append(all, text)
		}
		return all
	}
	found := look(t, withAds(in, without("GPUsMemoryUsage")...))["attributes"]
	require.Equal(t, Note, found.Severity)
	require.Contains(t, found.Text, "usedMemory is Unknown")
	require.NotContains(t, found.Text, "ExitCode")
	found = look(t, withAds(in, without("ExitCode", "ExitBySignal")...))["attributes"]
	require.Equal(t, Warning, found.Severity)
	require.Regexp(t, "^attributes: in the .+, [0-9]+ of [0-9]+ ads of completed jobs lack ExitCode", found.Text)
	require.NotContains(t, found.Text, "GPUsMemoryUsage")
	require.Contains(t, found.Text, "import everything that condor_history prints again")
}

// A pool of whose jobs only a few have an ad, and a source that fails or answers in part.
func TestPoorSources(t *testing.T) {
	p, dir := made(t, good())
	ads := documents(t, p)
	in := open(t, dir, "UTC", p.Options().End)
	found := look(t, withAds(in, ads[len(ads)/2:len(ads)/2+30]...))
	require.Equal(t, Warning, found["links"].Severity)
	require.Less(t, found["links"].Details["linkRate"], 50.0)
	require.Contains(t, found["links"].Text, "ads of all access points")

	source := jobstest.NewMemory(ads...)
	source.Notices = []string{"2 of 5 shards failed"}
	in.Ads = source
	require.Equal(t, Warning, look(t, in)["ads"].Severity)

	source.Err = pool.SourceError("the server is away")
	found = look(t, in)
	require.NotContains(t, found, "links", "the health check says it")
	require.Contains(t, found, "gaps", "all else is reported")
}
