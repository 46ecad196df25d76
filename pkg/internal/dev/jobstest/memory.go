package jobstest

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/chtc/gpureports/pkg/jobs"
)

// Memory is a [jobs.Source] over documents in memory: the simplest one that passes the suite, for tests of the code
// that uses sources.
type Memory struct {
	Err     error    // when set, every method fails with it
	Notices []string // added to each result, which is then partial

	mu        sync.Mutex
	documents [][]byte
	asked     []string
}

// NewMemory holds the given documents.
func NewMemory(documents ...[]byte) *Memory { return &Memory{documents: documents} }

// Add stores more documents.
func (m *Memory) Add(documents ...[]byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.documents = append(m.documents, documents...)
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
	return m.lookup(ctx, jobs.Keys(wanted), jobs.ByJob)
}

// AdsOnMachines implements [jobs.Source].
func (m *Memory) AdsOnMachines(ctx context.Context, days []jobs.MachineDay) (jobs.Result, error) {
	return m.lookup(ctx, jobs.Keys(days), jobs.ByMachineDay)
}

// Epochs implements [jobs.Source].
func (m *Memory) Epochs(ctx context.Context, days []jobs.EpochDay) (jobs.Result, error) {
	keys := make([]string, len(days))
	for i, d := range days {
		keys[i] = d.Key()
	}
	return m.collect(ctx, keys, jobs.NewEpochCollector(days, jobs.MaxEpochs))
}

func (m *Memory) lookup(ctx context.Context, keys []string, by func(*jobs.Ad) string) (jobs.Result, error) {
	return m.collect(ctx, keys, jobs.NewCollector(keys, by))
}

func (m *Memory) collect(ctx context.Context, keys []string, found *jobs.Collector) (jobs.Result, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range keys {
		job, _, _ := strings.Cut(key, "\x00")
		m.asked = append(m.asked, job)
	}
	if err := ctx.Err(); err != nil {
		return jobs.Result{}, err
	}
	if m.Err != nil {
		return jobs.Result{}, m.Err
	}
	for _, document := range m.documents {
		found.Add(document)
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
	health := jobs.Health{Store: "memory", Ads: int64(len(m.documents))}
	for _, document := range m.documents {
		ad, err := jobs.ParseAd(document)
		if err == nil && ad.RecordTime.Time().After(health.Newest) {
			health.Newest = ad.RecordTime.Time()
		}
		health.Saves = health.Saves || err == nil && ad.JobLastCheckpointTime != 0
	}
	return health, ctx.Err()
}

// Close implements [jobs.Source].
func (*Memory) Close() error { return nil }
