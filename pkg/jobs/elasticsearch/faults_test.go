package elasticsearch

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/elastic"
	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/pool"
)

// fakeServer answers as a server with one ad does, as long as the test does not say otherwise.
type fakeServer struct {
	*httptest.Server
	search func(w http.ResponseWriter, r *http.Request, n int) // the nth search, from 1
	caps   string

	mu                       sync.Mutex
	searches, opened, closed int
	paths, auth              []string
	bodies                   []string
}

func newFake(t *testing.T, search func(w http.ResponseWriter, r *http.Request, n int)) *fakeServer {
	f := &fakeServer{search: search, caps: caps}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

// source is a quick one that uses the server.
func (f *fakeServer) source(t *testing.T, url string) *Source {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	s, err := New(Config{URL: url, Index: "htcondor", Transport: transport})
	require.NoError(t, err)
	s.timeout = 20 * time.Second
	s.es.Retries.First = time.Millisecond
	return s
}

const (
	oneHit = `{"pit_id": "p2", "timed_out": false, "_shards": {"total": 1, "failed": 0}, "hits": {"hits": [{"_source": {"GlobalJobId": "j", "RecordTime": 1759130000}, "sort": [1, 2]}]}}`
	caps   = `{"indices": ["htcondor-000001"], "fields": {"GlobalJobId": {"keyword": {"type": "keyword", "searchable": true}}, "RecordTime": {"date": {"type": "date", "searchable": true}}}}`
)

func (f *fakeServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	f.mu.Lock()
	f.paths = append(f.paths, r.URL.Path)
	f.auth = append(f.auth, r.Header.Get("Authorization"))
	w.Header().Set("X-Elastic-Product", "Elasticsearch")
	w.Header().Set("Content-Type", "application/vnd.elasticsearch+json;compatible-with=8")
	switch {
	case r.URL.Path == "/":
		f.mu.Unlock()
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"error": {"type": "security_exception", "reason": "action [cluster:monitor/main] is unauthorized for user [alice]"}}`)
	case strings.HasSuffix(r.URL.Path, "/_count"):
		f.mu.Unlock()
		fmt.Fprint(w, `{"count": 7, "_shards": {"total": 3, "failed": 1}}`)
	case strings.HasSuffix(r.URL.Path, "/_field_caps"):
		f.mu.Unlock()
		fmt.Fprint(w, f.caps)
	case strings.HasSuffix(r.URL.Path, "/_pit") && r.Method == http.MethodDelete:
		f.closed++
		f.mu.Unlock()
		fmt.Fprint(w, `{"succeeded": true, "num_freed": 1}`)
	case strings.HasSuffix(r.URL.Path, "/_pit"):
		f.opened++
		f.mu.Unlock()
		fmt.Fprint(w, `{"id": "p1"}`)
	case strings.HasSuffix(r.URL.Path, "/_search"):
		f.searches++
		n := f.searches
		f.bodies = append(f.bodies, string(body))
		f.mu.Unlock()
		if f.search != nil {
			f.search(w, r, n)
			return
		}
		fmt.Fprint(w, oneHit)
	default:
		f.mu.Unlock()
		http.NotFound(w, r)
	}
}

func status(code int, body string) func(http.ResponseWriter, *http.Request, int) {
	return func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.WriteHeader(code)
		fmt.Fprint(w, body)
	}
}

func html(code int) func(http.ResponseWriter, *http.Request, int) {
	return func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(code)
		fmt.Fprint(w, "<html><body>Hello from the proxy</body></html>")
	}
}

var wanted = []jobs.Wanted{{Job: "j"}}

const securityException = `{"error": {"root_cause": [{"type": "security_exception", "reason": "unable to authenticate user [alice] for REST request"}],
	"type": "security_exception", "reason": "unable to authenticate user [alice] for REST request"}, "status": 401}`

// Each failure is an error of the source, with the URL without credentials, what went wrong and what to do.
func TestFaults(t *testing.T) {
	errorBody := func(kind, reason string) string {
		return fmt.Sprintf(`{"error": {"root_cause": [{"type": %q, "reason": %q}], "type": "x", "reason": "y"}}`, kind,
			reason)
	}
	for name, c := range map[string]struct {
		search   func(http.ResponseWriter, *http.Request, int)
		says     []string
		searches int
	}{
		"401": {status(401, securityException), []string{"401 Unauthorized",
			"check user and password, or the API key"}, 1},
		"403": {status(403, errorBody("security_exception", "action [indices:data/read/search] is unauthorized")),
			[]string{"403 Forbidden", "is unauthorized", "rights read and view_index_metadata on htcondor"}, 1},
		"404 index": {status(404, errorBody("index_not_found_exception", "no such index [htcondor]")),
			[]string{"no such index", "check jobsIndex"}, 1},
		"406 of 7.10": {status(406, `{"error": "Content-Type header [compatible-with=8] is not supported", "status": 406}`),
			[]string{"406 Not Acceptable: Content-Type header [compatible-with=8] is not supported", "before 7.11"}, 1},
		"plain text": {func(w http.ResponseWriter, _ *http.Request, _ int) {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, "only from inside\nand more")
		}, []string{"403 Forbidden: only from inside: "}, 1},
		"404 page": {html(404), []string{"404 Not Found", "check that the URL"}, 1},
		"redirect": {status(302, ""), []string{"302 Found", "check that the URL"}, 1},
		"429": {status(429, errorBody("es_rejected_execution_exception", "queue full")),
			[]string{"429 Too Many Requests", "queue full", "overloaded"}, elastic.Attempts},
		"500": {status(500, errorBody("illegal_state", strings.Repeat("x", 1000))),
			[]string{"500 Internal Server Error", "xxx...", "server's log"}, 1},
		"502":     {html(502), []string{"502 Bad Gateway", "try again later"}, elastic.Attempts},
		"503":     {status(503, ""), []string{"503 Service Unavailable", "try again later"}, elastic.Attempts},
		"html":    {html(200), []string{`the answer is "text/html", not JSON`, "proxy's page"}, 1},
		"no json": {status(200, "hello"), []string{"incomplete or not JSON", "try again"}, 1},
		"half a body": {func(w http.ResponseWriter, _ *http.Request, _ int) {
			w.Header().Set("Content-Length", "100000")
			fmt.Fprint(w, oneHit[:80])
		}, []string{"incomplete or not JSON", "unexpected EOF", "a proxy that cuts answers"}, 1},
		"connection cut": {func(http.ResponseWriter, *http.Request, int) { panic(http.ErrAbortHandler) },
			[]string{"EOF", "check that the server runs"}, 1},
		"lost point in time": {status(404, `{"error": {"root_cause": [{"type": "search_context_missing_exception", "reason": "No search context found for id [1]"}]}}`),
			[]string{"lost the point in time", "try again"}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, c.search)
			s := f.source(t, strings.Replace(f.URL, "http://", "http://alice:s3cret@", 1)+"/q/")
			result, err := s.Ads(t.Context(), wanted)
			require.Equal(t, pool.FaultSource, pool.FaultOf(err), "%v", err)
			require.Zero(t, result)
			for _, text := range append(c.says, "Elasticsearch at "+f.URL+"/q: ") {
				require.ErrorContains(t, err, text)
			}
			for _, secret := range []string{"alice", "s3cret"} {
				require.NotContains(t, err.Error(), secret)
			}
			require.Equal(t, c.searches, f.searches)
			require.Equal(t, f.opened, f.closed, "points in time closed")
			require.Less(t, len(err.Error()), 700)
			for i, path := range f.paths {
				require.True(t, strings.HasPrefix(path, "/q/"), path)
				require.Equal(t, "Basic YWxpY2U6czNjcmV0", f.auth[i])
			}
		})
	}
}

// asks are all questions of a source.
func asks(s *Source) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"Ads": func(ctx context.Context) error { _, err := s.Ads(ctx, wanted); return err },
		"AdsOnMachines": func(ctx context.Context) error {
			_, err := s.AdsOnMachines(ctx, []jobs.MachineDay{{Machine: "m", Day: 1}})
			return err
		},
		"Newest": func(ctx context.Context) error { _, err := s.Newest(ctx); return err },
		"Health": func(ctx context.Context) error { _, err := s.Health(ctx); return err },
	}
}

func TestSlow(t *testing.T) {
	f := newFake(t, nil)
	hang := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}))
	defer hang.Close()
	s := f.source(t, hang.URL)
	s.timeout = 20 * time.Millisecond
	for name, ask := range asks(s) {
		err := ask(t.Context())
		require.Equal(t, pool.FaultSource, pool.FaultOf(err), name)
		require.ErrorContains(t, err, "no answer in time")
		require.ErrorContains(t, err, hang.URL)
	}
	// Who has a deadline gets the answer before it.
	s.timeout = time.Hour
	ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
	defer cancel()
	_, err := s.Ads(ctx, wanted)
	require.ErrorContains(t, err, "no answer in time")
	require.NoError(t, ctx.Err())
	// The transport's own limit.
	transport := &http.Transport{ResponseHeaderTimeout: 20 * time.Millisecond}
	defer transport.CloseIdleConnections()
	limited, err := New(Config{URL: hang.URL, Index: "i", Transport: transport})
	require.NoError(t, err)
	_, err = limited.Ads(t.Context(), wanted)
	require.ErrorContains(t, err, "no answer in time")

	// Who gives up knows it: no error of the source.
	s.timeout = time.Minute
	for name, ask := range asks(s) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(10*time.Millisecond, cancel)
		err := ask(ctx)
		require.ErrorIs(t, err, context.Canceled, name)
		require.Zero(t, pool.FaultOf(err), name)
	}
}

// A body that stops half-way counts as no answer in time, not as a broken one.
func TestSlowBody(t *testing.T) {
	f := newFake(t, func(w http.ResponseWriter, r *http.Request, _ int) {
		fmt.Fprint(w, oneHit[:40])
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	s := f.source(t, f.URL)
	s.timeout = 100 * time.Millisecond
	_, err := s.Ads(t.Context(), wanted)
	require.ErrorContains(t, err, "no answer in time")
}

// What answers without Elasticsearch's header is named, with what to do.
func TestNotElasticsearch(t *testing.T) {
	for body, says := range map[string]string{
		"<html>": "the response is not from Elasticsearch: check that the URL",
		`{"version": {"distribution": "opensearch"}, "tagline": "The OpenSearch Project: https://opensearch.org/"}`: "this " +
			"is OpenSearch: it is not supported: import job ads into a job file with `gpureports import-jobs`",
		`{"version": {"number": "8.19.0"}, "tagline": "You Know, for Search"}`: "a proxy removes the header " +
			"X-Elastic-Product",
	} {
		page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) }))
		_, err := newFake(t, nil).source(t, page.URL).Ads(t.Context(), wanted)
		page.Close()
		require.ErrorContains(t, err, says)
	}
}

// An index that allows smaller pages is read in smaller pages.
func TestSmallerPages(t *testing.T) {
	f := newFake(t, func(w http.ResponseWriter, _ *http.Request, n int) {
		switch n {
		case 1:
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"error": {"type": "illegal_argument_exception", "reason": "Result window is too large, from + `+
				`size must be less than or equal to: [1] but was [5000]. See the scroll api"}}`)
		case 2:
			fmt.Fprint(w, oneHit)
		default:
			fmt.Fprint(w, strings.Replace(oneHit, `"hits": [{`, `"hits": [], "none": [{`, 1))
		}
	})
	result, err := f.source(t, f.URL).Ads(t.Context(), wanted)
	require.NoError(t, err)
	require.Len(t, result.Ads[0], 1)
	require.Equal(t, 3, f.searches, "a page of one that is full has a next one")
	require.Contains(t, f.bodies[1], `"size":1`)
}

// An answer that is too long is read no further; a smaller page of it is asked for, down to one document.
func TestLongAnswers(t *testing.T) {
	for _, always := range []bool{false, true} {
		f := newFake(t, func(w http.ResponseWriter, _ *http.Request, n int) {
			switch {
			case n > 3 && !always:
				fmt.Fprint(w, `{"hits": {"hits": []}}`)
				return
			case n > 2 && !always:
				fmt.Fprint(w, oneHit)
				return
			}
			fmt.Fprint(w, `{"hits": {"hits": [{"_source": {"GlobalJobId": "`)
			for block := bytes.Repeat([]byte("x"), 1<<16); ; {
				if _, err := w.Write(block); err != nil {
					return
				}
			}
		})
		s := f.source(t, f.URL)
		s.page = 70
		s.es.MostAnswer = 1 << 20
		result, err := s.Ads(t.Context(), wanted)
		require.Contains(t, f.bodies[0]+f.bodies[1]+f.bodies[2], `"size":8`)
		if always {
			require.ErrorContains(t, err, "searching job ads: the answer is too long: more than 1 MB: look for documents "+
				"with long texts")
			require.Equal(t, 3, f.searches, "pages of 70, 8 and 1")
		} else {
			require.NoError(t, err)
			require.Len(t, result.Ads[0], 1)
		}
	}
}

// Indexes that have no GlobalJobId that can be searched are named.
func TestBlindIndexes(t *testing.T) {
	keyword := func(indices string) string {
		return `"keyword": {"type": "keyword", "searchable": true` + indices + `}`
	}
	const text = `"text": {"type": "text", "searchable": true, "indices": ["i-2", "i-3"]}`
	for fields, blind := range map[string][]string{
		`"GlobalJobId": {` + keyword(`, "indices": ["i-1"]`) + `, ` + text + `}`: {"i-2", "i-3"},
		`"GlobalJobId": {` + keyword(`, "indices": ["i-1"]`) + `, ` + text + `}, "GlobalJobId.keyword": {` +
			keyword(`, "indices": ["i-3"]`) + `}`: {"i-2"},
		`"GlobalJobId": {` + keyword("") + `}`:                                            nil,
		`"GlobalJobId": {"text": {"type": "text"}}, "globaljobid": {` + keyword("") + `}`: nil,
		`"GlobalJobId": {"text": {"type": "text", "searchable": true}}`:                   {"i-1", "i-2", "i-3"},
	} {
		var c capabilities
		require.NoError(t, json.Unmarshal([]byte(`{"indices": ["i-1", "i-2", "i-3"], "fields": {`+fields+`}}`), &c))
		require.Equal(t, blind, c.without("GlobalJobId", "keyword"), fields)
	}
	f := newFake(t, nil)
	f.caps = `{"indices": ["i-1", "i-2"], "fields": {"GlobalJobId": {` + keyword(`, "indices": ["i-1"]`) + `, ` +
		`"long": {"type": "long", "searchable": true, "indices": ["i-2"]}}}}`
	result, err := f.source(t, f.URL).Ads(t.Context(), wanted)
	require.NoError(t, err)
	require.Contains(t, result.Notices[0], "GlobalJobId cannot be searched in i-2")
}

func TestUnknownCertificate(t *testing.T) {
	f := newFake(t, nil)
	tls := httptest.NewUnstartedServer(f)
	tls.Config.ErrorLog = log.New(io.Discard, "", 0)
	tls.StartTLS()
	defer tls.Close()
	_, err := f.source(t, tls.URL).Ads(t.Context(), wanted)
	require.Equal(t, pool.FaultSource, pool.FaultOf(err))
	require.ErrorContains(t, err, "check the data source's TLS settings")
}

// What passes is repeated, with the whole body.
func TestRetries(t *testing.T) {
	f := newFake(t, func(w http.ResponseWriter, _ *http.Request, n int) {
		if n < elastic.Attempts {
			w.WriteHeader([]int{429, 502, 503}[n%3])
			return
		}
		fmt.Fprint(w, oneHit)
	})
	result, err := f.source(t, f.URL).Ads(t.Context(), wanted)
	require.NoError(t, err)
	require.Len(t, result.Ads[0], 1)
	require.Equal(t, elastic.Attempts, f.searches)
	for _, body := range f.bodies {
		require.Equal(t, f.bodies[0], body, "the whole body again")
		require.NotEmpty(t, body)
	}
}

// At most 1,000 ids a search, and each id once.
func TestBatches(t *testing.T) {
	f := newFake(t, nil)
	var many []jobs.Wanted
	for i := range 2500 {
		many = append(many, jobs.Wanted{Job: fmt.Sprintf("ap#%d.0#1", i)}, jobs.Wanted{Job: fmt.Sprintf("ap#%d.0#1", i)})
	}
	_, err := f.source(t, f.URL).Ads(t.Context(), many)
	require.NoError(t, err)
	require.Equal(t, 3, f.searches)
	require.Equal(t, 1, f.opened)
	total := 0
	for _, body := range f.bodies {
		n := strings.Count(body, "ap#")
		require.LessOrEqual(t, n, 1000)
		total += n
	}
	require.Equal(t, 2500, total)
}

func TestIncompleteAnswers(t *testing.T) {
	failing := strings.Replace(oneHit, `"failed": 0`, `"failed": 1, "failures": [{"index": "htcondor-000001", "reason": {"type": "node_gone", "reason": "the node went away"}}]`, 1)
	for name, c := range map[string]struct {
		answer string
		notice string
	}{
		"failed shards": {failing, "1 of 1 shards failed (index htcondor-000001: node_gone: the node went away): job ads " +
			"may be missing. Check the cluster's health. (1 of 1 searches)"},
		"timed out": {strings.Replace(oneHit, `"timed_out": false`, `"timed_out": true`, 1),
			"1 of 1 searches timed out on the server: job ads may be missing."},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, status(200, c.answer))
			result, err := f.source(t, f.URL).Ads(t.Context(), wanted)
			require.NoError(t, err)
			require.True(t, result.Partial)
			require.Equal(t, []string{"Elasticsearch at " + f.URL + ": " + c.notice}, result.Notices)
			require.Len(t, result.Ads[0], 1)
		})
	}
	t.Run("cut", func(t *testing.T) {
		f := newFake(t, func(w http.ResponseWriter, _ *http.Request, n int) { // as many hits as one likes
			fmt.Fprint(w, strings.NewReplacer("1759130000", fmt.Sprint(1759130000+n), "[1, 2]", fmt.Sprintf("[1, %d]", n)).
				Replace(oneHit))
		})
		s := f.source(t, f.URL)
		s.page, s.maxAds = 1, 7
		result, err := s.Ads(t.Context(), wanted)
		require.NoError(t, err)
		require.True(t, result.Partial)
		require.Equal(t, []string{"More than 7 job ads match: the rest were left out. Use a shorter time range."},
			result.Notices)
		require.Equal(t, 7, f.searches)
	})
	t.Run("documents that are no ads", func(t *testing.T) {
		f := newFake(t, status(200, `{"hits": {"hits": [{"_source": {"RecordTime": 1}}, {"_source": {"GlobalJobId": "j", "EpochAdType": "INPUT"}}, {"_source": {"GlobalJobId": "j", "NumHolds": {}}}]}}`))
		result, err := f.source(t, f.URL).Ads(t.Context(), wanted)
		require.NoError(t, err)
		require.False(t, result.Partial)
		require.Equal(t, []string{
			"1 stored documents are not job ads (invalid JSON or no GlobalJobId) and were left out.",
			"1 documents are neither history nor epoch ads (file transfers, beginnings of epochs) and were left out.",
			"1 values in job ads could not be read and count as missing.",
		}, result.Notices)
		require.Len(t, result.Ads[0], 1)
	})
}

// A point in time that is lost once, on one shard or on all, costs only a second attempt.
func TestLostPointInTime(t *testing.T) {
	for name, lost := range map[string]func(http.ResponseWriter, *http.Request, int){
		"on all shards": status(404, `{"error": {"root_cause": [{"type": "search_context_missing_exception", "reason": "No search context found"}]}}`),
		"on one shard": status(200, strings.Replace(oneHit, `"failed": 0`,
			`"failed": 1, "failures": [{"index": "i", "reason": {"type": "search_context_missing_exception", "reason": "No search context found"}}]`, 1)),
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, nil)
			f.search = func(w http.ResponseWriter, r *http.Request, n int) {
				if n == 2 {
					lost(w, r, n)
					return
				}
				if n == 1 { // an ad that is gone when the lookup is restarted
					fmt.Fprint(w, strings.Replace(oneHit, "1759130000", "1759120000", 1))
					return
				}
				if n%2 == 1 { // a full page, then the last one
					fmt.Fprint(w, oneHit)
					return
				}
				fmt.Fprint(w, `{"hits": {}}`)
			}
			s := f.source(t, f.URL)
			s.page = 1
			result, err := s.Ads(t.Context(), wanted)
			require.NoError(t, err)
			require.False(t, result.Partial)
			require.Empty(t, result.Notices)
			require.Len(t, result.Ads[0], 1, "none of the first attempt")
			require.Equal(t, 2, f.opened)
			require.Equal(t, 2, f.closed)
		})
	}
}

// A user who may read the indexes and nothing else gets everything but the version.
func TestHealthWithFewRights(t *testing.T) {
	f := newFake(t, nil)
	health, err := f.source(t, f.URL).Health(t.Context())
	require.NoError(t, err)
	require.Equal(t, jobs.Health{
		Store:  "Elasticsearch (version hidden) at " + f.URL + ", index htcondor",
		Ads:    7,
		Saves:  true, // the server counts 7 of everything
		Newest: time.Unix(1759130000, 0).UTC(),
		Notices: []string{"Elasticsearch at " + f.URL + ": 1 of 3 shards failed (no reason given): job ads may be " +
			"missing. Check the cluster's health."},
	}, health)
}

func TestNew(t *testing.T) {
	for _, c := range []Config{
		{}, {URL: "http://h:9200"}, {URL: "h:9200", Index: "i"}, {URL: "ftp://h", Index: "i"}, {URL: "http://", Index: "i"},
		{URL: "http://u:s3cret@h:port", Index: "i"},
		{URL: "http://h", Index: "a/_search"}, {URL: "http://h", Index: ",", EpochIndex: " "},
		{URL: "http://h", Index: "a b"},
	} {
		_, err := New(c)
		require.Equal(t, pool.FaultQuery, pool.FaultOf(err), "%v", c)
		require.NotContains(t, err.Error(), "s3cret")
	}
	s, err := New(Config{URL: "http://h", Index: " a, b-*,", EpochIndex: "c"})
	require.NoError(t, err)
	require.Equal(t, "a,b-*,c", s.index)
}

// Mappings that cannot be searched are explained.
func TestMappings(t *testing.T) {
	for body, says := range map[string]string{
		`{"indices": [], "fields": {}}`:    "no index matches htcondor",
		`{"indices": ["i"], "fields": {}}`: "no GlobalJobId that can be searched",
		`{"indices": ["i"], "fields": {"GlobalJobId": {"text": {"type": "text", "searchable": false}}}}`:       "no GlobalJobId that can be searched",
		`{"indices": ["i"], "fields": {"GlobalJobId": {"keyword": {"type": "keyword", "searchable": false}}}}`: "no GlobalJobId that can be searched",
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Elastic-Product", "Elasticsearch")
			fmt.Fprint(w, body)
		}))
		f := newFake(t, nil)
		_, err := f.source(t, server.URL).Ads(t.Context(), wanted)
		server.Close()
		require.Equal(t, pool.FaultSource, pool.FaultOf(err))
		require.ErrorContains(t, err, says)
	}
}
