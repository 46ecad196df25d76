package fleet_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
)

// memoryES is as much of Elasticsearch as facts need, in memory.
type memoryES struct {
	mu   sync.Mutex
	docs map[string]map[string]any // by index + "\x00" + id
	text map[string]json.RawMessage
	seq  map[string]int64 // of documents that were put one by one
	next int64
}

func (m *memoryES) put(index, id string, text []byte) {
	var d map[string]any
	_ = json.Unmarshal(text, &d)
	m.docs[index+"\x00"+id], m.text[index+"\x00"+id] = d, bytes.Clone(text)
}

// document is a stored document, and test tells whether a query finds it.
type (
	document = map[string]any
	test     = func(document) bool
)

// testOf makes the test of a query.
func testOf(q any) test {
	var all []test
	o, _ := q.(map[string]any)
	for kind, v := range o {
		of, _ := v.(map[string]any)
		switch kind {
		case "bool":
			all = append(all, testsOf(of["filter"])...)
			for _, unwanted := range testsOf(of["must_not"]) {
				all = append(all, func(d document) bool { return !unwanted(d) })
			}
			if some := testsOf(of["should"]); some != nil {
				all = append(all, func(d document) bool {
					return slices.ContainsFunc(some, func(one test) bool { return one(d) })
				})
			}
		case "term":
			for f, x := range of {
				text := fmt.Sprint(x)
				all = append(all, func(d document) bool {
					if is, ok := d[f].(string); ok {
						return is == text
					}
					return fmt.Sprint(d[f]) == text
				})
			}
		case "terms":
			for f, x := range of {
				all = append(all, func(d document) bool { return slices.Contains(x.([]any), d[f]) })
			}
		case "exists":
			field := of["field"].(string)
			all = append(all, func(d document) bool { _, ok := d[field]; return ok })
		case "range":
			for f, x := range of {
				least, above := x.(map[string]any)["gte"].(float64)
				end, below := x.(map[string]any)["lt"].(float64)
				all = append(all, func(d document) bool {
					n, ok := d[f].(float64)
					return ok && (!above || n >= least) && (!below || n < end)
				})
			}
		}
	}
	return func(d document) bool {
		return !slices.ContainsFunc(all, func(one test) bool { return !one(d) })
	}
}

// testsOf makes the tests of a query, or of several.
func testsOf(q any) (all []test) {
	list, many := q.([]any)
	if !many && q != nil {
		list = []any{q}
	}
	for _, x := range list {
		all = append(all, testOf(x))
	}
	return all
}

func (m *memoryES) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w.Header().Set("X-Elastic-Product", "Elasticsearch")
	w.Header().Set("Content-Type", "application/json")
	body, _ := io.ReadAll(r.Body)
	answer := func(v any) { _ = json.NewEncoder(w).Encode(v) }
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case strings.HasSuffix(r.URL.Path, "/_pit"), r.URL.Path == "/_pit":
		answer(map[string]any{"id": "p"})
	case strings.HasSuffix(r.URL.Path, "_bulk"):
		var items []any
		s := bufio.NewScanner(bytes.NewReader(body))
		s.Buffer(nil, 64<<20)
		for s.Scan() {
			var action map[string]map[string]any
			if json.Unmarshal(s.Bytes(), &action) != nil {
				continue
			}
			for kind, meta := range action {
				index, _ := meta["_index"].(string)
				id := meta["_id"].(string)
				if kind == "delete" {
					delete(m.docs, index+"\x00"+id)
					delete(m.text, index+"\x00"+id)
				} else {
					s.Scan()
					m.put(index, id, s.Bytes())
				}
				items = append(items, map[string]any{kind: map[string]any{"status": 200}})
			}
		}
		answer(map[string]any{"errors": false, "items": items})
	case strings.HasSuffix(r.URL.Path, "_search"):
		var q map[string]any
		_ = json.Unmarshal(body, &q)
		m.search(q, answer)
	case len(parts) == 3 && (parts[1] == "_doc" || parts[1] == "_create"):
		m.document(w, r, parts[0], parts[2], body)
	default:
		answer(map[string]any{"_shards": map[string]any{"total": 1, "failed": 0}})
	}
}

// document answers for one document, which a put with a condition replaces if it holds.
func (m *memoryES) document(w http.ResponseWriter, r *http.Request, index, id string, body []byte) {
	key := index + "\x00" + id
	seq, there := m.seq[key]
	q := r.URL.Query()
	switch {
	case r.Method == http.MethodGet && !there:
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"found": false}`)
		return
	case r.Method == http.MethodGet:
	case there && q.Get("op_type") == "create", q.Has("if_seq_no") && q.Get("if_seq_no") != strconv.FormatInt(seq, 10):
		w.WriteHeader(http.StatusConflict)
		fmt.Fprint(w, `{"error": {"type": "version_conflict_engine_exception", "reason": "required seqNo"}}`)
		return
	default:
		m.next++
		seq, m.seq[key] = m.next, m.next
		m.put(index, id, body)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"_seq_no": seq, "_primary_term": 1, "_source": m.text[key]})
}

func (m *memoryES) search(q map[string]any, answer func(any)) {
	var keys []string
	found := testOf(q["query"])
	for k, d := range m.docs {
		if found(d) {
			keys = append(keys, k)
		}
	}
	sort.Strings(keys)
	result := map[string]any{"_shards": map[string]any{"total": 1, "failed": 0}, "hits": map[string]any{"hits": []any{}}}
	if aggs, ok := q["aggs"].(map[string]any); ok {
		out := map[string]any{}
		for name, a := range aggs {
			composite := a.(map[string]any)["composite"].(map[string]any)
			inner, _ := a.(map[string]any)["aggs"].(map[string]any)
			type bucket struct {
				key  map[string]any
				sums map[string]float64
				n    int
			}
			groups := map[string]*bucket{}
			for _, k := range keys {
				d := m.docs[k]
				key := map[string]any{}
				complete := true
				for _, s := range composite["sources"].([]any) {
					for n, of := range s.(map[string]any) {
						for _, how := range of.(map[string]any) {
							terms := how.(map[string]any)
							v, there := d[terms["field"].(string)]
							complete = complete && (there || terms["missing_bucket"] == true)
							key[n] = v
						}
					}
				}
				if !complete {
					continue
				}
				text, _ := json.Marshal(key)
				g := groups[string(text)]
				if g == nil {
					g = &bucket{key, map[string]float64{}, 0}
					groups[string(text)] = g
				}
				g.n++
				for f := range inner {
					v, _ := d[f].(float64)
					g.sums[f] += v
				}
			}
			buckets := []any{}
			for _, g := range groups {
				b := map[string]any{"key": g.key, "doc_count": g.n}
				for f := range inner {
					b[f] = map[string]any{"value": g.sums[f]}
				}
				buckets = append(buckets, b)
			}
			out[name] = map[string]any{"buckets": buckets}
		}
		result["aggregations"] = out
		answer(result)
		return
	}
	var hits []any
	if q["search_after"] == nil {
		for _, k := range keys {
			index, id, _ := strings.Cut(k, "\x00")
			hits = append(hits, map[string]any{"_index": index, "_id": id, "_source": m.text[k], "sort": []any{1}})
		}
	}
	result["hits"] = map[string]any{"hits": hits}
	answer(result)
}

func startMemoryES(t *testing.T) (*memoryES, string) {
	t.Helper()
	m := &memoryES{docs: map[string]map[string]any{}, text: map[string]json.RawMessage{}, seq: map[string]int64{}}
	s := httptest.NewServer(m)
	t.Cleanup(s.Close)
	return m, s.URL
}

// hours are how many documents there are of each hour's coverage, by hour, and the checkpoint.
func (m *memoryES) hours() (of map[int64]int, since, through int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	of = map[int64]int{}
	for _, d := range m.docs {
		switch d["kind"] {
		case "hour":
			of[int64(d["hour"].(float64))]++
		case "pool":
			since, through = int64(d["since"].(float64)), int64(d["through"].(float64))
		}
	}
	return of, since, through
}

func smallPool(t *testing.T, days int) (dir string, o samplepool.Options) {
	t.Helper()
	o = samplepool.Default()
	o.Seed, o.Machines, o.GPUs, o.Timezone = 5, 5, 12, "UTC"
	o.Start = time.Date(2025, 10, 1, 0, 0, 0, 0, time.UTC)
	o.End, o.Cadence = o.Start.Add(time.Duration(days)*24*time.Hour+3*time.Hour), 15*time.Minute
	return poolOf(t, o), o
}

// poolOf writes a sample pool into a directory of its own.
func poolOf(t *testing.T, o samplepool.Options) (dir string) {
	t.Helper()
	p, err := samplepool.New(o)
	require.NoError(t, err)
	dir = t.TempDir()
	require.NoError(t, p.Write(t.Context(), dir))
	return dir
}
