package elasticsearch

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	client "github.com/elastic/go-elasticsearch/v8"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/chtc/gpureports/pkg/internal/dev/adstash"
	"github.com/chtc/gpureports/pkg/internal/dev/jobstest"
	"github.com/chtc/gpureports/pkg/jobs"
)

func TestMain(m *testing.M) {
	code := m.Run()
	jobstest.StopServers()
	http.DefaultClient.CloseIdleConnections()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// The suite, on each way in which sites store ads.
func TestSource(t *testing.T) {
	url := jobstest.Elasticsearch(t)
	for name, store := range map[string]func(t *testing.T, documents [][]byte) Config{
		"refactored": func(t *testing.T, documents [][]byte) Config {
			return Config{Index: load(t, url, adstash.Refactored, documents)}
		},
		"legacy, epochs in an index of their own": func(t *testing.T, documents [][]byte) Config {
			history, epochs := split(t, documents)
			return Config{Index: load(t, url, adstash.Legacy, history), EpochIndex: load(t, url, adstash.Legacy, epochs)}
		},
		"automatic mapping": func(t *testing.T, documents [][]byte) Config {
			if len(documents) == 0 { // such an index maps nothing
				return Config{Index: load(t, url, adstash.Refactored, nil)}
			}
			return Config{Index: load(t, url, adstash.Automatic, documents)}
		},
		"a mixture": func(t *testing.T, documents [][]byte) Config {
			half := len(documents) / 2
			return Config{Index: load(t, url, adstash.Automatic, documents[:half]) + ", " + load(t, url, adstash.Refactored,
				documents[half:]), EpochIndex: load(t, url, adstash.Legacy, nil)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			jobstest.Run(t, func(t *testing.T, documents [][]byte) jobs.Source {
				config := store(t, documents)
				config.URL = url
				source, err := New(config)
				require.NoError(t, err)
				source.page = 700 // more than one page in the suite
				t.Cleanup(func() { require.NoError(t, source.Close()) })
				return source
			})
		})
	}
}

func split(t *testing.T, documents [][]byte) (history, epochs [][]byte) {
	for _, document := range documents {
		ad, err := jobs.ParseAd(document)
		require.NoError(t, err)
		if ad.Kind == jobs.History {
			history = append(history, document)
		} else {
			epochs = append(epochs, document)
		}
	}
	return history, epochs
}

// texts is the schema of an index whose owner mapped all strings as texts, without keywords.
const texts adstash.Schema = "texts"

// load stores documents in a new index, which goes with the test.
func load(t testing.TB, url string, schema adstash.Schema, documents [][]byte) string {
	es, err := client.NewTypedClient(client.Config{Addresses: []string{url}, Transport: http.DefaultTransport})
	require.NoError(t, err)
	index := fmt.Sprintf("gpureports-test-%x", rand.Uint64())
	if schema == texts {
		_, err = es.Indices.Create(index).Raw(strings.NewReader(`{"mappings": {"dynamic_templates": [{"texts":
			{"match_mapping_type": "string", "mapping": {"type": "text"}}}]}}`)).Do(t.Context())
		require.NoError(t, err)
		schema = adstash.Automatic
	}
	_, err = adstash.Load(t.Context(), es, index, schema, slices.Values(documents))
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := es.Indices.Delete(index).Do(context.Background())
		require.NoError(t, err)
	})
	return index
}
