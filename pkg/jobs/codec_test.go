package jobs

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/chtc/gpureports/pkg/pool"
)

// Bytes is the estimated size of the cached entries.
func (c *Cache) Bytes() uint64 { return c.entries.WeightedSize() }

// fill gives every field of an ad a value that is not zero: a field that the disk forgets is noticed.
func fill(t *testing.T, random *rand.Rand) (ad Ad) {
	t.Helper()
	fields := reflect.ValueOf(&ad).Elem()
	for i := range fields.NumField() {
		switch f := fields.Field(i); f.Interface().(type) {
		case Kind:
			f.Set(reflect.ValueOf(Epoch))
		case string:
			f.SetString(fields.Type().Field(i).Name + string(rune('a'+random.IntN(3))))
		case []string:
			f.Set(reflect.ValueOf([]string{"GPU-1", "", "GPU-2"}))
		case Date:
			f.SetInt(random.Int64N(1<<33) - 1<<20)
		case float64:
			f.SetFloat([]float64{1, 3600, 0.1, -2.5, math.MaxFloat64}[random.IntN(5)])
		case int:
			f.SetInt(random.Int64N(1<<40) - 1<<39)
		case bool:
			f.SetBool(true)
		default:
			t.Fatalf("field %s: fill has to know its type", fields.Type().Field(i).Name)
		}
		require.False(t, fields.Field(i).IsZero(), fields.Type().Field(i).Name)
	}
	return ad
}

func TestEntriesComeBackAsTheyWere(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	said := []string{"3 values could not be read"}
	entries := map[string]entry{
		"none":     {Asked: time.Unix(1_700_000_000, 123)},
		"":         {Asked: time.Unix(0, 1), Ads: []Ad{{}}},
		"several":  {Asked: time.Unix(1_700_000_001, 0), Ads: []Ad{fill(t, random), {}, fill(t, random)}, Notices: said},
		"m\x00123": {Asked: time.Unix(1_700_000_002, 0), Ads: []Ad{fill(t, random)}, Notices: said},
	}
	source := &cached{cache: NewCache(1, time.Now)}
	written := encode(entries)
	require.Equal(t, entries, source.decode(written))
	for i := range written { // no prefix is taken for all of it
		require.Empty(t, source.decode(written[:i]), i)
	}
	for range 2000 { // any bytes
		damaged := append([]byte(nil), written...)
		damaged[random.IntN(len(damaged))] ^= 1 << random.IntN(8)
		_ = source.decode(damaged)
	}
}

// A lookup of short runs holds no more ads than its limit, and says how many it left out.
func TestEpochLimit(t *testing.T) {
	const start = 1759120000
	collected := func(most, stored int) Result {
		c := NewDayCollector([]MachineDay{{"m1", start / secondsOfDay, time.Hour}})
		c.most = most
		for i := range stored {
			c.Add(fmt.Appendf(nil, `{"GlobalJobId": "ap#%d.0#1", "StartdName": "m1", "JobCurrentStartDate": %d,
				"EpochWriteDate": %d, "RecordTime": %d, "EpochAdType": "EPOCH",
				"metadata": {"condor_adstash_source": "schedd_job_epoch_history"}}`, i, start, start+60, start+60))
		}
		return c.Result()
	}
	all := collected(5, 5)
	require.Len(t, all.Ads[0], 5)
	require.False(t, all.Partial)
	require.Empty(t, all.Notices)
	cut := collected(5, 8)
	require.Len(t, cut.Ads[0], 5)
	require.True(t, cut.Partial)
	require.Equal(t, []string{"More than 5 job ads match: 3 of them were left out. Ask for a shorter time range."},
		cut.Notices)
}

// Documents of one job and time that differ, such as a corrected ad in another index: the one whose JSON with sorted
// names is bytewise greater counts, whichever is parsed first. Ads with other starts are two.
func TestOfEqualAdsTheGreaterCounts(t *testing.T) {
	const job = "ap#1.0#1759276800"
	ad := func(rest string) string {
		return `{"GlobalJobId": "` + job + `", "RecordTime": 1759276800` + rest + "}"
	}
	for _, c := range []struct{ less, greater string }{
		{`, "JobStatus": 4, "ExitCode": 0`, `, "JobStatus": 3, "VacateReasonCode": 1000`}, // ExitCode, GlobalJobId
		{`, "JobStatus": 3`, `, "JobStatus": 4`},
		{`, "Owner": "bob"`, `, "Owner": "carol"`},
		{`, "NumHolds": 1, "JobStatus": 4`, `, "JobStatus": 4`}, // NumHolds, RecordTime
		{`, "StartdName": "slot1@a"`, `, "StartdName": "slot1@b"`},
		{`, "VacateReasonCode": 0`, `, "VacateReasonCode": 1000`},
	} {
		want, err := ParseAd([]byte(ad(c.greater)))
		require.NoError(t, err)
		for _, order := range [][]string{{c.less, c.greater, c.less}, {c.greater, c.less, c.greater}} {
			found := NewCollector([]string{job}, ByJob)
			for _, text := range order {
				found.Add([]byte(ad(text)))
			}
			require.Equal(t, [][]Ad{{want}}, found.Result().Ads, c)
		}
	}
	found := NewCollector([]string{job}, ByJob)
	found.Add([]byte(ad(`, "JobCurrentStartDate": 1759276700`)))
	found.Add([]byte(ad(`, "JobCurrentStartDate": 1759276600`)))
	require.Len(t, found.Result().Ads[0], 2)
}

// A compact ad is read as the whole one, is small, and has none of the texts that nobody reads.
func TestCompact(t *testing.T) {
	names := append(append([]string{}, Attributes...), "Environment", "Args", "metadata", "METADATA", "exitcode",
		"GLOBALJOBID")
	value := rapid.OneOf(
		rapid.Map(rapid.Int64(), func(n int64) string { return fmt.Sprint(n) }),
		rapid.Map(rapid.StringN(0, 40, -1), func(s string) string {
			text, _ := json.Marshal(s)
			return string(text)
		}),
		rapid.SampledFrom([]string{"null", "true", `"slot1_2@m.example.org"`, `["GPU-a", "GPU-b"]`, `{"a": 1, "b": [2]}`,
			`{"condor_adstash_source": "schedd_job_epoch_history"}`, `"2026-07-01T00:00:00Z"`, "1759276800",
			`"` + strings.Repeat("x", 3*pool.MostText) + `"`, `"  ` + strings.Repeat("é", pool.MostText) + `"`, `"undefined"`}))
	rapid.Check(t, func(t *rapid.T) {
		members := []string{`"GlobalJobId": "ap#1.0#1"`}
		for range rapid.IntRange(0, 30).Draw(t, "members") {
			members = append(members, fmt.Sprintf("%q: %s", rapid.SampledFrom(names).Draw(t, "name"), value.Draw(t, "value")))
		}
		whole := []byte("{" + strings.Join(members, ",\n") + "}")
		want, err := ParseAd(whole)
		require.NoError(t, err)
		compact, err := Compact(whole)
		require.NoError(t, err)
		got, err := ParseAd(compact)
		require.NoError(t, err, string(compact))
		require.Equal(t, want, got, string(compact))
		require.NotContains(t, string(compact), "Environment")
		again, err := Compact(compact)
		require.NoError(t, err)
		require.Equal(t, string(compact), string(again))
	})
	_, err := Compact([]byte("[1]"))
	require.Error(t, err)
}
