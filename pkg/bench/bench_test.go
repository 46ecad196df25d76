package bench

import (
	"bytes"
	"io"
	"math"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/bucket/buckettest"
	"github.com/chtc/gpureports/pkg/jobs/jobstest"
)

// On a tiny pool every figure is taken, and every form of the table holds them all.
func TestRun(t *testing.T) {
	figures, err := Run(t.Context(), Options{Machines: 6, GPUs: 20, Days: 32, Dir: t.TempDir(), Progress: io.Discard})
	require.NoError(t, err)
	areas := map[string]bool{}
	for _, f := range figures {
		areas[f.Area] = true
		require.Positive(t, f.Value, f.What)
		require.False(t, math.IsInf(f.Value, 0), f.What)
	}
	for _, area := range []string{"reading", "memory", "first panel", "warm, 24 h", "warm, 30 d", "new snapshot",
		"many viewers", "plain SQL", "20 GPUs, 32 d", "growth"} {
		require.Contains(t, areas, area)
	}
	for name, print := range map[string]func(io.Writer, []Figure) error{"table": Print, "Markdown": PrintMarkdown,
		"JSON": PrintJSON} {
		var out bytes.Buffer
		require.NoError(t, print(&out, figures), name)
		for _, f := range figures {
			require.Contains(t, out.String(), f.What, name)
		}
	}
}

// With a bucket: a data source that finds finished days in it reads no snapshot row.
func TestBucket(t *testing.T) {
	buckettest.Start(t) // it is skipped where there is no server
	figures, err := Run(t.Context(), Options{Machines: 6, GPUs: 20, Days: 34, Dir: t.TempDir(), Bucket: true,
		Progress: io.Discard})
	require.NoError(t, err)
	require.Len(t, figures, 11) // that of the sample pool, three of months, three and four of days
	for _, f := range figures[1:] {
		require.Equal(t, "bucket", f.Area)
		require.Positive(t, f.Value, f.What)
		if strings.Contains(f.What, "first panel") {
			require.Equal(t, strings.Contains(f.What, "finished days"), strings.Contains(f.Note, " 0 rows of snapshots"), f)
		}
	}
}

// Facts of one pool and of two in a real Elasticsearch: every figure is taken, two pools have twice the documents, and
// nothing stays.
func TestFleet(t *testing.T) {
	url := jobstest.Elasticsearch(t)
	figures, err := Run(t.Context(), Options{Machines: 6, GPUs: 20, Days: 32, Dir: t.TempDir(), Fleet: true, Pools: 2,
		Elasticsearch: url, Progress: io.Discard})
	require.NoError(t, err)
	// of the sample pool, of its facts, of what the publisher makes, and six for one pool and for two
	require.Len(t, figures, 15)
	documents := map[string]int{}
	for _, f := range figures[1:] {
		require.Equal(t, "many pools", f.Area)
		require.Positive(t, f.Value, f.What)
		if strings.HasPrefix(f.What, "documents published") {
			documents[f.What], err = strconv.Atoi(strings.Fields(f.Note)[0])
			require.NoError(t, err)
		}
	}
	require.Greater(t, documents["documents published, pools 1 to 1"], 1000)
	require.Equal(t, documents["documents published, pools 1 to 1"], documents["documents published, pools 2 to 2"])
	response, err := http.Get(url + "/" + factsAlias)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusNotFound, response.StatusCode)
	_, err = Run(t.Context(), Options{Days: 32, Fleet: true, Progress: io.Discard})
	require.ErrorContains(t, err, "one is the least")
}

func TestMain(m *testing.M) {
	code := m.Run()
	jobstest.StopServers()
	os.Exit(code)
}

func TestTooFewDays(t *testing.T) {
	_, err := Run(t.Context(), Options{Machines: 6, GPUs: 20, Days: 7, Progress: io.Discard})
	require.ErrorContains(t, err, "32 are the least")
}
