package accuracy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	client "github.com/elastic/go-elasticsearch/v8"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/adstash"
	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/internal/dev/jobstest"
	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/jobs/elasticsearch"
)

func TestMain(m *testing.M) {
	code := m.Run()
	jobstest.StopServers()
	os.Exit(code)
}

func recorded(t *testing.T) *realRuns {
	t.Helper()
	recording, err := openReal(filepath.Join(golden.Dir(t), "real-pool"), t.TempDir())
	require.NoError(t, err)
	t.Cleanup(recording.at.close)
	require.Len(t, recording.runs, 55)
	return recording
}

// Every backfill run of a real HTCondor pool is found, with its outcome and times, by the ads as adstash converts them
// and as condor_history prints them.
func TestRealPool(t *testing.T) {
	long := func(ads []byte) []byte { // as condor_history -long prints them
		var text bytes.Buffer
		for line := range bytes.Lines(ads) {
			var ad map[string]json.RawMessage
			require.NoError(t, json.Unmarshal(line, &ad))
			for attribute, value := range ad {
				fmt.Fprintf(&text, "%s = %s\n", attribute, value)
			}
			text.WriteString("\n")
		}
		return text.Bytes()
	}
	array := func(ads []byte) []byte { // as condor_history -json prints them
		return []byte("[\n" + strings.ReplaceAll(strings.TrimSpace(string(ads)), "\n", "\n,\n") + "\n]\n")
	}
	same := func(ads []byte) []byte { return ads }
	for form, files := range map[string]struct {
		names []string
		as    func([]byte) []byte
	}{
		"adstash": {[]string{"adstash.jsonl"}, same}, "-jsonl": {[]string{"epochs.jsonl", "history.jsonl"}, same},
		"-json": {[]string{"epochs.jsonl", "history.jsonl"}, array}, "-long": {[]string{"history.jsonl",
			"epochs.jsonl"}, long},
	} {
		t.Run(form, func(t *testing.T) {
			recording := recorded(t)
			for _, name := range files.names {
				content, err := os.ReadFile(filepath.Join(recording.dir, name))
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(filepath.Join(recording.dir, name), files.as(content), 0o600))
			}
			ads, err := recording.ads(t.Context(), "jobs.db", files.names...)
			require.NoError(t, err)
			measured, err := recording.measure(t.Context(), ads)
			require.NoError(t, err)
			require.Empty(t, measured.Wrong)
		})
	}
}

// The same through a real Elasticsearch with adstash's mapping: the history and the epoch ads in an index each, and all
// in one, where the history ad of a job takes the place of its last epoch ad.
func TestRealPoolInElasticsearch(t *testing.T) {
	server := jobstest.Elasticsearch(t)
	es, err := client.NewTypedClient(client.Config{Addresses: []string{server}, Transport: http.DefaultTransport})
	require.NoError(t, err)
	recording := recorded(t)
	content, err := os.ReadFile(filepath.Join(recording.dir, "adstash.jsonl"))
	require.NoError(t, err)
	of := map[jobs.Kind][][]byte{}
	for line := range bytes.Lines(content) {
		ad, err := jobs.ParseAd(line)
		require.NoError(t, err)
		of[ad.Kind] = append(of[ad.Kind], bytes.TrimSpace(line))
	}
	load := func(name string, lists ...[][]byte) (index string, stored int64) {
		index = fmt.Sprintf("gpureports-real-%s-%d", name, time.Now().UnixNano())
		t.Cleanup(func() { _, _ = es.Indices.Delete(index).Do(context.WithoutCancel(t.Context())) })
		for _, list := range lists {
			_, err := adstash.Load(t.Context(), es, index, adstash.Legacy, slices.Values(list))
			require.NoError(t, err)
		}
		answer, err := es.Count().Index(index).Do(t.Context())
		require.NoError(t, err)
		return index, answer.Count
	}
	history, stored := load("history", of[jobs.History])
	require.EqualValues(t, len(of[jobs.History]), stored)
	epochs, stored := load("epochs", of[jobs.Epoch])
	require.EqualValues(t, len(of[jobs.Epoch]), stored)
	one, stored := load("one", of[jobs.Epoch], of[jobs.History])
	require.Less(t, stored, int64(len(of[jobs.History])+len(of[jobs.Epoch])), "ads that replace others")
	for name, config := range map[string]elasticsearch.Config{"two indices": {Index: history, EpochIndex: epochs},
		"one index": {Index: one}} {
		t.Run(name, func(t *testing.T) {
			config.URL = server
			source, err := elasticsearch.New(config)
			require.NoError(t, err)
			measured, err := recording.measure(t.Context(), source)
			require.NoError(t, err)
			require.Empty(t, measured.Wrong)
			health, err := source.Health(t.Context())
			require.NoError(t, err)
			require.True(t, health.Saves)
		})
	}
}

// What each kind of ads is worth: epoch ads tell all; the others are no better than they can be.
func TestMeasureReal(t *testing.T) {
	all, err := MeasureReal(t.Context(), filepath.Join(golden.Dir(t), "real-pool"))
	require.NoError(t, err)
	require.Len(t, all, 4)
	none, history, epochs, both := &all[0], &all[1], &all[2], &all[3]
	require.Empty(t, both.Wrong)
	require.Empty(t, epochs.Wrong)
	require.Less(t, none.Found, both.Found)
	require.Less(t, none.Right, history.Right)
	require.Less(t, history.Right, both.Right)
	require.Equal(t, both.TrueEvicted, both.Evicted)
	require.Equal(t, both.TrueYielded, both.Yielded)
	require.InDelta(t, both.TrueLost, both.Lost, 0.02)
	require.Greater(t, history.Lost, both.Lost)
	text := Markdown(nil, nil, all, Options{})
	require.Contains(t, text, "## Against a real pool")
	require.Equal(t, 4, strings.Count(text, " of 55 |"))
}
