package jobs

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/chtc/gpureports/pkg/pool"
)

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
	names := append(append([]string{}, Attributes...), "Environment", "Args", "metadata", "METADATA", "exitcode", "GLOBALJOBID")
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
