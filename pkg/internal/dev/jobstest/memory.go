package jobstest

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chtc/gpureports/pkg/internal/dev/elastictest"
	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
	"github.com/chtc/gpureports/pkg/jobs"
)

// Memory is a [jobs.Source] over documents in memory: the simplest one that passes the suite, for tests of the code
// that uses sources, and for measurements.
type Memory struct {
	Err     error    // when set, every method fails with it
	Notices []string // added to each result, which is then partial

	mu        sync.Mutex
	documents map[string][][]byte // by job, and by the machine and day on which a run began
	broken    [][]byte            // documents that are no ads
	health    jobs.Health
	asked     []string
}

// NewMemory holds the given documents.
func NewMemory(documents ...[]byte) *Memory {
	m := &Memory{documents: map[string][][]byte{}, health: jobs.Health{Store: "memory"}}
	m.Add(documents...)
	return m
}

// OfPool holds the ads of a sample pool that fit.
func OfPool(ctx context.Context, p *samplepool.Pool, fits func(*samplepool.Ad) bool) (*Memory, error) {
	m := NewMemory()
	err := p.EachAd(ctx, func(a samplepool.Ad) {
		if fits(&a) {
			m.Add(a.JSON)
		}
	})
	return m, err
}

// Add stores more documents.
func (m *Memory) Add(documents ...[]byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, document := range documents {
		m.health.Ads++
		ad, err := jobs.ParseAd(document)
		if err != nil {
			m.broken = append(m.broken, document)
			continue
		}
		m.documents[ad.GlobalJobID] = append(m.documents[ad.GlobalJobID], document)
		if day, began := jobs.DayOf(&ad); began {
			m.documents[day.Key()] = append(m.documents[day.Key()], document)
		}
		if at := ad.RecordTime.Time(); at.After(m.health.Newest) {
			m.health.Newest = at
		}
		m.health.Saves = m.health.Saves || ad.JobLastCheckpointTime != 0
	}
}

// Asked returns the jobs and machines that lookups have requested since the last call.
func (m *Memory) Asked() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	asked := m.asked
	m.asked = nil
	return asked
}

// Ads implements [jobs.Source].
func (m *Memory) Ads(ctx context.Context, wanted []jobs.Wanted) (jobs.Result, error) {
	keys := jobs.Keys(wanted)
	return m.collect(ctx, keys, jobs.NewCollector(keys, jobs.ByJob))
}

// AdsOnMachines implements [jobs.Source].
func (m *Memory) AdsOnMachines(ctx context.Context, days []jobs.MachineDay) (jobs.Result, error) {
	keys := make([]string, len(days))
	for i, d := range days {
		keys[i] = jobs.MachineDay{Machine: d.Machine, Day: d.Day}.Key()
	}
	return m.collect(ctx, keys, jobs.NewDayCollector(days))
}

// collect adds the documents that have one of the keys.
func (m *Memory) collect(ctx context.Context, keys []string, found *jobs.Collector) (jobs.Result, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range keys {
		job, _, _ := strings.Cut(key, "\x00")
		m.asked = append(m.asked, job)
	}
	if err := cmp.Or(ctx.Err(), m.Err); err != nil {
		return jobs.Result{}, err
	}
	for _, document := range m.broken {
		found.Add(document)
	}
	for _, key := range slices.Compact(slices.Sorted(slices.Values(keys))) {
		for _, document := range m.documents[key] {
			found.Add(document)
		}
	}
	result := found.Result()
	result.Partial = result.Partial || len(m.Notices) > 0
	result.Notices = append(result.Notices, m.Notices...)
	return result, nil
}

// Newest implements [jobs.Source].
func (m *Memory) Newest(ctx context.Context) (time.Time, error) {
	health, err := m.Health(ctx)
	return health.Newest, err
}

// Health implements [jobs.Source].
func (m *Memory) Health(ctx context.Context) (jobs.Health, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.Err != nil {
		return jobs.Health{}, m.Err
	}
	return m.health, ctx.Err()
}

// Servers of this test process, by password.
var (
	serversMu sync.Mutex
	servers   = map[string]*server{}
)

type server struct {
	elastictest.Server
	err error
}

// Password is the password of the user admin of [SecuredElasticsearch].
const Password = "made-up-for-tests"

// Elasticsearch returns the URL of a real Elasticsearch: ELASTICSEARCH_URL if set, otherwise the fixture of
// tests/elasticsearch, started once per test process. The package's TestMain calls [StopServers]. Where the fixture
// cannot run, the test is skipped; it fails where CI is set.
func Elasticsearch(t testing.TB) string {
	t.Helper()
	if url := os.Getenv("ELASTICSEARCH_URL"); url != "" {
		return url
	}
	return fixture(t, "")
}

// SecuredElasticsearch is the fixture with security on: user admin, [Password].
func SecuredElasticsearch(t testing.TB) string {
	t.Helper()
	return fixture(t, Password)
}

func fixture(t testing.TB, password string) string {
	t.Helper()
	serversMu.Lock()
	defer serversMu.Unlock()
	s := servers[password]
	if s == nil {
		s = &server{Server: elastictest.Server{Password: password}}
		s.err = s.Start(context.Background())
		servers[password] = s
	}
	switch {
	case s.err == nil:
		return s.URL
	case os.Getenv("CI") != "" || !errors.Is(s.err, elastictest.ErrNoTools):
		t.Fatal(s.err)
	}
	t.Skip(s.err)
	return ""
}

// StopServers stops what this test process has started. Call it in TestMain, after the tests.
func StopServers() {
	serversMu.Lock()
	defer serversMu.Unlock()
	for _, s := range servers {
		s.Stop()
	}
	clear(servers)
}
