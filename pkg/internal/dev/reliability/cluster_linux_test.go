package reliability

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/fleet/publish"
	"github.com/chtc/gpureports/pkg/internal/dev/elastictest"
	"github.com/chtc/gpureports/pkg/plugin"
)

const clusterAlias = "gpu-facts"

// startCluster starts a cluster of two nodes, of which the first is the master. Without the fixture the test is
// skipped; it fails where CI is set.
func startCluster(t *testing.T) (master, other *elastictest.Server) {
	t.Helper()
	master = &elastictest.Server{Join: "begin"}
	err := master.Start(t.Context())
	if errors.Is(err, elastictest.ErrNoTools) && os.Getenv("CI") == "" {
		t.Skip(err)
	}
	require.NoError(t, err)
	t.Cleanup(master.Stop)
	nodes := cluster(t, master, http.MethodGet, "/_nodes/_local/transport", "")["nodes"].(map[string]any)
	require.Len(t, nodes, 1)
	for _, node := range nodes {
		address := node.(map[string]any)["transport"].(map[string]any)["publish_address"].(string)
		other = &elastictest.Server{Join: address}
		require.NoError(t, other.Start(t.Context()))
		t.Cleanup(other.Stop)
	}
	return master, other
}

// processOf is a node's process.
func processOf(t *testing.T, n *elastictest.Server) *os.Process {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(n.Dir, "pid"))
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	process, err := os.FindProcess(pid)
	require.NoError(t, err)
	return process
}

// signal sends a signal to a node's process.
func signal(t *testing.T, n *elastictest.Server, s syscall.Signal) {
	t.Helper()
	require.NoError(t, processOf(t, n).Signal(s))
}

// cluster asks a node something and reads the JSON answer.
func cluster(t *testing.T, n *elastictest.Server, method, path, body string) (answer map[string]any) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, n.URL+path, strings.NewReader(body))
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	var text bytes.Buffer
	_, err = text.ReadFrom(response.Body)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text.Bytes(), &answer), "%s %s: %s", method, path, text.String())
	return answer
}

// healthy waits until every copy of every shard is there, on two nodes.
func healthy(t *testing.T, n *elastictest.Server) {
	t.Helper()
	health := cluster(t, n, http.MethodGet, "/_cluster/health?wait_for_nodes=2&wait_for_status=green&timeout=120s", "")
	require.Equal(t, "green", health["status"], "%v", health)
}

// inElasticsearch is a data source with an Elasticsearch.
func inElasticsearch(t *testing.T, url string, now time.Time, jsonData map[string]any) *plugin.Datasource {
	t.Helper()
	instance := settings(t, jsonData)
	instance.URL = url
	d := plugin.Open(instance, func() time.Time { return now })
	t.Cleanup(d.Dispose)
	return d
}

// publishPools publishes a pool's facts under several names and returns the number of documents.
func publishPools(t *testing.T, source *plugin.Datasource, names ...string) (documents int) {
	t.Helper()
	for _, name := range names {
		require.NoError(t, plugin.Publish(t.Context(), source, publish.Options{Pool: name}, func(p publish.Part) {
			documents += p.Documents
		}))
	}
	return documents
}

// With a cluster of two nodes: clients ask while one is killed, comes back, and hangs. Every answer is right, or an
// error that names Elasticsearch and says what failed; answers come as long as a copy of each shard is there.
func TestNodesOfElasticsearch(t *testing.T) {
	if !*long && os.Getenv("ELASTICSEARCH_CLUSTER") == "" {
		t.Skip("with a cluster in the long version only, or with ELASTICSEARCH_CLUSTER=1")
	}
	master, other := startCluster(t)
	o := small()
	dir := write(t, o)
	ofPool := map[string]any{"snapshotDir": dir, "timezone": "UTC", "factsIndex": clusterAlias}
	source := inElasticsearch(t, master.URL, o.End, ofPool)
	require.Positive(t, publishPools(t, source, "a", "b", "c"))
	healthy(t, master)
	inFleet := settings(t, map[string]any{"mode": "fleet", "factsIndex": clusterAlias})
	inFleet.URL = master.URL
	fleet := plugin.Open(inFleet, func() time.Time { return o.End })
	defer fleet.Dispose()
	want := make([]string, len(ofMany))
	for i, q := range ofMany {
		want[i] = figures(t, ask(t, fleet, o.Start, o.End, q)[0])
		require.Contains(t, want[i], "pool")
	}
	c := &clients{ask: func(ctx context.Context, n int) backend.DataResponse {
		d := plugin.Open(inFleet, func() time.Time { return o.End }) // without the answers of the last second
		defer d.Dispose()
		return askIn(t, ctx, d, o.Start, o.End, ofMany[n%len(ofMany)])[0]
	}, right: func(n int, r backend.DataResponse) bool { return figures(t, r) == want[n%len(want)] }, url: master.URL}
	c.start(t, 20)
	c.more(t, "with both nodes")
	signal(t, other, syscall.SIGKILL)
	killed := time.Now()
	c.more(t, "after one was killed")
	require.NoError(t, other.Start(t.Context()))
	healthy(t, master)
	c.more(t, "with the node back")
	c.stop()
	figure("Elasticsearch: one of two nodes killed and restarted while 20 clients query",
		"%d answers, all right; %d errors that say so; in %s", c.answered.Load(), c.refused.Load(),
		time.Since(killed).Round(time.Second))
	testHangingNode(t, c, master, other, o.Start, o.End)
	testMissingShard(t, master, other, o.End, ofPool, func(d *plugin.Datasource) backend.DataResponse {
		return ask(t, d, o.Start, o.End, ofMany[0])[0]
	})
}

// testHangingNode stops a node's process for some seconds: questions with a deadline end with it, and say why; a data
// source of a pool answers in the meantime. When the process continues, answers are right again.
func testHangingNode(t *testing.T, c *clients, master, other *elastictest.Server, from, to time.Time) {
	t.Helper()
	signal(t, other, syscall.SIGSTOP)
	refused, begin := 0, time.Now()
	for n := range ofMany {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		answer := c.ask(ctx, n)
		cancel()
		if answer.Error == nil {
			require.True(t, c.right(n, answer), "an answer of the node that goes on")
			continue
		}
		refused++
		require.ErrorContains(t, answer.Error, "no answer in time")
		require.ErrorContains(t, answer.Error, master.URL)
		require.Equal(t, backend.ErrorSourceDownstream, answer.ErrorSource)
	}
	require.Less(t, time.Since(begin), 30*time.Second, "a question ends at its deadline")
	alone := open(t, to, map[string]any{"snapshotDir": write(t, small())})
	require.NoError(t, ask(t, alone, from, to, `{"queryType": "allocation", "view": "summary"}`)[0].Error)
	signal(t, other, syscall.SIGCONT)
	healthy(t, master)
	for n := range ofMany {
		answer := c.ask(t.Context(), n)
		require.NoError(t, answer.Error)
		require.True(t, c.right(n, answer), "after the node goes on")
	}
	figure("Elasticsearch: one of two nodes hangs, queries with a deadline of 2 s",
		"%d of %d end with an error that says so, the others are right; all are once it continues", refused, len(ofMany))
}

// testMissingShard: without a replica, what only a killed node held is missing, which is an error with numbers and
// never an answer without it.
func testMissingShard(t *testing.T, master, other *elastictest.Server, now time.Time, ofPool map[string]any,
	ask func(*plugin.Datasource) backend.DataResponse) {
	t.Helper()
	const alias = "facts-alone"
	process := processOf(t, other)
	for _, month := range []string{"2025-10", "2025-11"} { // one on each node, and no replica
		node := map[string]string{"2025-10": master.URL, "2025-11": other.URL}[month]
		made := cluster(t, master, http.MethodPut, "/"+alias+"-"+month, fmt.Sprintf(`{"settings":
			{"number_of_replicas": 0, "refresh_interval": "-1",
			"index.routing.allocation.require._name": %q}, "aliases": {%q: {}}}`, nameOf(t, master, node), alias))
		require.Equal(t, true, made["acknowledged"], "%v", made)
	}
	own := map[string]any{}
	for name, value := range ofPool {
		own[name] = value
	}
	own["factsIndex"] = alias
	require.Positive(t, publishPools(t, inElasticsearch(t, master.URL, now, own), "a"))
	healthy(t, master)
	fleet := inElasticsearch(t, master.URL, now, map[string]any{"mode": "fleet", "factsIndex": alias})
	whole := ask(fleet)
	require.NoError(t, whole.Error)
	require.NoError(t, process.Signal(syscall.SIGKILL))
	text := ""
	require.Eventually(t, func() bool {
		answer := ask(fleet)
		if answer.Error == nil {
			require.Equal(t, figures(t, whole), figures(t, answer), "an answer without what is missing")
			return false
		}
		text = answer.Error.Error()
		return true
	}, time.Minute, 50*time.Millisecond)
	require.Contains(t, text, master.URL)
	require.Regexp(t, `\d+ of \d+ shards failed|missing shards`, text)
	figure("Elasticsearch: the only copy of a shard is gone", "an error: %s", strings.SplitN(text, ": ", 3)[2])
}

// nameOf is the name of the node with a URL.
func nameOf(t *testing.T, n *elastictest.Server, url string) string {
	t.Helper()
	for _, node := range cluster(t, n, http.MethodGet, "/_nodes/http", "")["nodes"].(map[string]any) {
		node := node.(map[string]any)
		if "http://"+node["http"].(map[string]any)["publish_address"].(string) == url {
			return node["name"].(string)
		}
	}
	t.Fatal("no node has the URL")
	return ""
}

// clients ask all the while something goes wrong.
type clients struct {
	ask               func(ctx context.Context, n int) backend.DataResponse
	right             func(n int, r backend.DataResponse) bool
	url               string // that errors name
	answered, refused atomic.Int64
	number            int64
	cancel            context.CancelFunc
	wait              sync.WaitGroup
}

func (c *clients) start(t *testing.T, number int) {
	t.Helper()
	c.number = int64(number)
	ctx, cancel := context.WithCancel(t.Context())
	c.cancel = cancel
	for client := range number {
		c.wait.Go(func() {
			for n := client; ctx.Err() == nil; n++ {
				switch r := c.ask(ctx, n); {
				case ctx.Err() != nil:
				case r.Error == nil:
					if c.answered.Add(1); !c.right(n, r) {
						t.Error("a wrong answer")
					}
				case !strings.Contains(r.Error.Error(), c.url) || r.ErrorSource != backend.ErrorSourceDownstream:
					t.Errorf("an error that does not name the server: %v", r.Error)
				default:
					c.refused.Add(1)
				}
			}
		})
	}
}

// more waits until each client has had two more answers.
func (c *clients) more(t *testing.T, what string) {
	t.Helper()
	begin := c.answered.Load()
	require.Eventually(t, func() bool { return c.answered.Load() > begin+2*c.number }, 3*time.Minute,
		50*time.Millisecond, what)
}

func (c *clients) stop() {
	c.cancel()
	c.wait.Wait()
}
