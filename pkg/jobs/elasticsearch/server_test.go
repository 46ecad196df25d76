package elasticsearch

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/elastic/go-elasticsearch/v8/typedapi/indices/create"
	deletion "github.com/elastic/go-elasticsearch/v8/typedapi/indices/delete"
	"github.com/elastic/go-elasticsearch/v8/typedapi/security/createapikey"
	"github.com/elastic/go-elasticsearch/v8/typedapi/types"
	"github.com/elastic/go-elasticsearch/v8/typedapi/types/enums/indexprivilege"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/chtc/gpureports/pkg/elastic"
	"github.com/chtc/gpureports/pkg/internal/dev/adstash"
	"github.com/chtc/gpureports/pkg/internal/dev/jobstest"
	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/pool"
)

// A pool's ads, in both schemas and mixed, and with texts where others have keywords: the answers are those of a plain
// loop over the documents.
func TestSchemas(t *testing.T) {
	server := jobstest.Elasticsearch(t)
	history, old, epochs := documents(t, "history_refactored.jsonl"), documents(t, "history_legacy.jsonl"),
		documents(t, "epochs.jsonl")
	oracle := jobstest.NewMemory(append(slices.Clone(history), epochs...)...)
	var wanted []jobs.Wanted
	machines := map[string]bool{}
	for _, document := range append(slices.Clone(history), epochs...) {
		ad, err := jobs.ParseAd(document)
		require.NoError(t, err)
		wanted = append(wanted, jobs.Wanted{Job: ad.GlobalJobID})
		machines[ad.Machine] = true
	}
	var names []string
	for machine := range machines {
		names = append(names, machine)
	}
	slices.Sort(names)
	newest, err := oracle.Newest(t.Context())
	require.NoError(t, err)
	anySchema := cmpopts.IgnoreFields(jobs.Ad{}, "Refactored") // the oracle's ads are of one schema
	for name, config := range map[string]Config{
		"refactored": {Index: load(t, server, adstash.Refactored, append(slices.Clone(history), epochs...))},
		"legacy":     {Index: load(t, server, adstash.Legacy, old), EpochIndex: load(t, server, adstash.Refactored, epochs)},
		"both schemas in one index": {Index: load(t, server, adstash.Legacy, append(slices.Clone(old[:40]), history[40:]...)),
			EpochIndex: load(t, server, adstash.Automatic, epochs)},
		"texts in one index": {Index: load(t, server, texts, history[40:]) + "," + load(t, server, adstash.Refactored,
			slices.Concat(history[:40], epochs))},
		"nothing but texts": {Index: load(t, server, texts, slices.Concat(history, epochs))},
	} {
		t.Run(name, func(t *testing.T) {
			config.URL = server
			equal := func(want, got jobs.Result) {
				t.Helper()
				if strings.Contains(name, "texts") {
					require.Len(t, got.Notices, len(want.Notices)+2)
					require.Contains(t, got.Notices[len(want.Notices)], "GlobalJobId is a text in gpureports-test-")
					got.Notices = got.Notices[:len(want.Notices):len(want.Notices)]
				}
				if diff := cmp.Diff(want, got, anySchema, cmpopts.EquateEmpty()); diff != "" {
					t.Error(diff)
				}
			}
			source, err := New(config)
			require.NoError(t, err)
			want, err := oracle.Ads(t.Context(), wanted)
			require.NoError(t, err)
			got, err := source.Ads(t.Context(), wanted)
			require.NoError(t, err)
			equal(want, got)
			for back := range int32(4) {
				var days []jobs.MachineDay
				for i, name := range names {
					days = append(days, jobs.MachineDay{Machine: name, Day: int32(newest.Unix()/86400) - (back+int32(i))%4})
				}
				want, err := oracle.AdsOnMachines(t.Context(), days)
				require.NoError(t, err)
				got, err := source.AdsOnMachines(t.Context(), days)
				require.NoError(t, err)
				equal(want, got)
			}
			got2, err := source.Newest(t.Context())
			require.NoError(t, err)
			require.Equal(t, newest, got2)
		})
	}
}

func documents(t testing.TB, name string) (lines [][]byte) {
	content, err := os.ReadFile("../testdata/" + name)
	require.NoError(t, err)
	for line := range bytes.Lines(content) {
		lines = append(lines, bytes.TrimSpace(line))
	}
	return lines
}

func TestMissingIndex(t *testing.T) {
	server := jobstest.Elasticsearch(t)
	index := load(t, server, adstash.Refactored, nil)
	for expression, says := range map[string]string{
		"gpureports-no-such-index":             "check jobsIndex and jobsEpochIndex (gpureports-no-such-index)",
		index + ",gpureports-no-such-index":    "no such index [gpureports-no-such-index]",
		"gpureports-no-such-pattern-*":         "no index matches gpureports-no-such-pattern-*",
		"gpureports-no-such-pattern-*,.noth-*": "no index matches",
	} {
		source, err := New(Config{URL: server, Index: expression})
		require.NoError(t, err)
		_, err = source.Ads(t.Context(), wanted)
		require.Equal(t, pool.FaultSource, pool.FaultOf(err))
		require.ErrorContains(t, err, says)
	}
	source, err := New(Config{URL: server, Index: index[:len(index)-2] + "*", EpochIndex: "gpureports-no-such-pattern-*"})
	require.NoError(t, err)
	_, err = source.Ads(t.Context(), wanted)
	require.NoError(t, err)
}

// authorized sends a header with each request, as the data source's settings make it do.
type authorized string

func (a authorized) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	if a != "" {
		req.Header.Set("Authorization", string(a))
	}
	return http.DefaultTransport.RoundTrip(req)
}

func basic(user, password string) authorized {
	return authorized("Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password)))
}

// Authentication and rights, against a server with security on.
func TestSecurity(t *testing.T) {
	server := jobstest.SecuredElasticsearch(t)
	es, err := elastic.New(server, basic("admin", jobstest.Password), elastic.Remedies{})
	require.NoError(t, err)
	const index = "gpureports-security"
	stored := documents(t, "epochs.jsonl")[:5]
	_, err = adstash.Load(t.Context(), es, index, adstash.Refactored, slices.Values(stored))
	require.NoError(t, err)
	ad, err := jobs.ParseAd(stored[0])
	require.NoError(t, err)
	key := func(name string, privileges ...indexprivilege.IndexPrivilege) authorized {
		role := types.RoleDescriptor{Cluster: nil, Indices: []types.IndicesPrivileges{{Names: []string{index},
			Privileges: privileges}}}
		answer, err := createapikey.New(es).Name(name).
			RoleDescriptors(map[string]types.RoleDescriptor{"r": role}).Do(t.Context())
		require.NoError(t, err)
		return authorized("ApiKey " + answer.Encoded)
	}
	for name, c := range map[string]struct {
		transport authorized
		says      []string // nothing: it works
	}{
		"password":       {basic("admin", jobstest.Password), nil},
		"API key":        {key("reader", indexprivilege.Read, indexprivilege.Viewindexmetadata), nil},
		"no credentials": {"", []string{"401 Unauthorized", "check user and password, or the API key"}},
		"wrong password": {basic("admin", "wrong"), []string{"401 Unauthorized",
			"check user and password, or the API key"}},
		"unknown API key": {authorized("ApiKey " + base64.StdEncoding.EncodeToString([]byte("a:b"))),
			[]string{"401 Unauthorized"}},
		"without a right": {key("nothing", indexprivilege.None),
			[]string{"403 Forbidden", "rights read and view_index_metadata on " + index}},
		"without metadata": {key("read-only", indexprivilege.Read), nil},
	} {
		t.Run(name, func(t *testing.T) {
			source, err := New(Config{URL: server, Transport: c.transport, Index: index})
			require.NoError(t, err)
			result, err := source.Ads(t.Context(), []jobs.Wanted{{Job: ad.GlobalJobID}})
			if c.says == nil {
				require.NoError(t, err)
				require.NotEmpty(t, result.Ads[0])
				return
			}
			require.Equal(t, pool.FaultSource, pool.FaultOf(err))
			for _, text := range append(c.says, server) {
				require.ErrorContains(t, err, text)
			}
			require.NotContains(t, err.Error(), "wrong")
			require.NotContains(t, err.Error(), "admin")
		})
	}
}

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
	es, err := elastic.New(url, nil, elastic.Remedies{})
	require.NoError(t, err)
	index := fmt.Sprintf("gpureports-test-%x", rand.Uint64())
	if schema == texts {
		_, err = create.NewCreateFunc(es)(index).Raw(strings.NewReader(`{"mappings": {"dynamic_templates": [{"texts":
			{"match_mapping_type": "string", "mapping": {"type": "text"}}}]}}`)).Do(t.Context())
		require.NoError(t, err)
		schema = adstash.Automatic
	}
	_, err = adstash.Load(t.Context(), es, index, schema, slices.Values(documents))
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := deletion.NewDeleteFunc(es)(index).Do(context.Background())
		require.NoError(t, err)
	})
	return index
}
