// Package soak lets plugin processes answer questions about a growing pool for a long time, while faults that a seed
// draws happen to its files and to the processes. After each fault all processes answer like one that has just begun.
package soak

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"

	"github.com/chtc/gpureports/pkg/bucket"
	"github.com/chtc/gpureports/pkg/internal/dev/buckettest"
	"github.com/chtc/gpureports/pkg/internal/dev/host"
	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
	"github.com/chtc/gpureports/pkg/kinds"
	"github.com/chtc/gpureports/pkg/plugin"
)

// Options say how long, and with which faults.
type Options struct {
	Duration time.Duration `default:"10m" help:"How long to go on."`
	Seed     uint64        `default:"1" help:"Another seed draws other faults and questions."`
	Binary   string        `name:"plugin" type:"existingfile" placeholder:"FILE" help:"The plugin's binary. Default: built from this checkout."`

	Progress io.Writer `kong:"-"`
}

const (
	replicas = 2                // processes that live long and share a cache directory
	viewers  = 3                // who ask at the same time
	within   = 30 * time.Second // a fault is over, and answers are right again
	step     = time.Hour        // of the pool, by which it grows at once
)

// soak is a run.
type soak struct {
	Options
	random *rand.Rand
	pool   *pool
	cache  string
	bucket bucket.Options
	away   atomic.Bool // the server of the bucket
	fresh  *host.Process
	saved  int64 // how many data sources were made in it

	mu   sync.RWMutex // held for writing while a process is replaced
	long [replicas]*host.Process

	asked, failed atomic.Int64 // questions of viewers
}

// Run runs until the time is over. Errors: a process does not answer like a new one after a fault; the goroutines or
// open files of one grew.
func Run(ctx context.Context, o Options) (err error) {
	dir, err := os.MkdirTemp("", "gpureports-soak-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s := &soak{Options: o, random: rand.New(rand.NewPCG(o.Seed, 0)), cache: filepath.Join(dir, "cache")}
	if s.pool, err = newPool(ctx, dir, o.Seed); err != nil {
		return err
	}
	stop, err := s.serve(ctx, filepath.Join(dir, "bucket"))
	if err != nil {
		return err
	}
	defer stop()
	if s.fresh, err = s.start(); err != nil {
		return err
	}
	defer s.fresh.Close()
	for i := range s.long {
		if s.long[i], err = s.start(); err != nil {
			return err
		}
		defer func() { s.long[i].Close() }()
	}
	viewing, end := context.WithCancel(ctx)
	var wait sync.WaitGroup
	for i := range viewers {
		wait.Go(func() { s.view(viewing, rand.New(rand.NewPCG(o.Seed, uint64(i+1)))) })
	}
	defer wait.Wait()
	defer end()
	return s.faults(ctx)
}

// start starts a process.
func (s *soak) start() (*host.Process, error) {
	return host.Start(s.Binary, io.Discard, "GF_PLUGIN_ALLOWED_BUCKETS=*")
}

// serve starts the bucket that processes share, behind a server that can be away.
func (s *soak) serve(ctx context.Context, dir string) (stop func(), err error) {
	server, end, err := buckettest.Launch(dir)
	if err != nil {
		return nil, err
	}
	if s.bucket, err = server.Make(ctx); err != nil {
		end()
		return nil, err
	}
	to, err := url.Parse(server.Endpoint)
	forward := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = r.In.Host // it is signed
	}}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.away.Load() {
			panic(http.ErrAbortHandler)
		}
		forward.ServeHTTP(w, r)
	}))
	s.bucket.Endpoint = proxy.URL
	return func() { proxy.Close(); end() }, err
}

// faults lets faults happen until the time is over.
func (s *soak) faults(ctx context.Context) error {
	var early [replicas]gauges
	all := s.all()
	begin := time.Now()
	for n := 0; time.Since(begin) < s.Duration; n++ {
		if err := s.pool.grow(ctx, step); err != nil {
			return err
		}
		if err := s.agree(ctx, "growth"); err != nil {
			return err
		}
		f := all[s.random.IntN(len(all))]
		if err := f.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		if err := s.agree(ctx, f.name); err != nil {
			return err
		}
		for i, p := range s.long {
			g, err := measure(ctx, p)
			if err != nil {
				return fmt.Errorf("after %s: %w", f.name, err)
			}
			if n == 2*len(all) || f.renews {
				early[i] = g
			}
			fmt.Fprintf(s.Progress, "%6.0fs %4d %-28s process %d: %4d goroutines, %3d files, %4.0f MB; %d questions, "+
				"%d failed\n", time.Since(begin).Seconds(), n, f.name, i, g.goroutines, g.files, g.megabytes, s.asked.Load(), s.failed.Load())
			if e := early[i]; n > 2*len(all) && e.files > 0 && (g.files > 2*e.files+50 || g.goroutines > 2*e.goroutines+200) {
				return fmt.Errorf("process %d grew from %+v to %+v", i, e, g)
			}
		}
	}
	return nil
}

// view asks one question after another. Errors are counted only: the files are away or damaged now and then.
func (s *soak) view(ctx context.Context, random *rand.Rand) {
	queries := views()
	for ctx.Err() == nil {
		from := s.pool.begin.Add(time.Duration(random.IntN(240)) * time.Hour)
		to := from.Add(time.Duration(1+random.IntN(240)) * time.Hour)
		s.mu.RLock()
		_, err := s.ask(ctx, s.long[random.IntN(replicas)].Source(s.settings(true, 1)), from, to,
			queries[random.IntN(len(queries))])
		s.mu.RUnlock()
		s.asked.Add(1)
		if err != nil && ctx.Err() == nil {
			s.failed.Add(1)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(random.IntN(300)) * time.Millisecond):
		}
	}
}

// agree compares answers of all processes with those of a data source that was just made and caches nothing.
func (s *soak) agree(ctx context.Context, after string) error {
	queries := views()
	s.random.Shuffle(len(queries), func(i, j int) { queries[i], queries[j] = queries[j], queries[i] })
	from, to := s.pool.begin, s.pool.now
	for _, q := range queries[:4] {
		for i := range s.long {
			var got, want string
			for deadline := (time.Time{}); ; {
				var err, failure error
				s.saved++
				want, err = s.ask(ctx, s.fresh.Source(s.settings(false, 1+s.saved)), from, to, q)
				if deadline.IsZero() { // a busy machine may take long for the first answer
					deadline = time.Now().Add(within)
				}
				got, failure = s.ask(ctx, s.long[i].Source(s.settings(true, 1)), from, to, q)
				if err == nil && failure == nil && got == want {
					break
				}
				if ctx.Err() != nil || time.Now().After(deadline) {
					a, b := difference(got, want)
					return errors.Join(ctx.Err(), fmt.Errorf("after %s (seed %d), process %d answers %s with %s instead of %s "+
						"(%v, %v)", after, s.Seed, i, q, a, b, failure, err))
				}
				time.Sleep(time.Second) // answers are kept for that long
			}
		}
	}
	return nil
}

// difference returns the first parts of two texts that differ.
func difference(a, b string) (string, string) {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	part := func(text string) string { return "…" + text[max(0, min(n, len(text))-100):min(len(text), n+300)] }
	return part(a), part(b)
}

// settings are those of the data source of the pool, saved for the n-th time.
func (s *soak) settings(cached bool, n int64) backend.DataSourceInstanceSettings {
	fields := map[string]any{"snapshotDir": s.pool.dir, "jobs": "sqlite"}
	if cached {
		fields["cacheDir"] = s.cache
		fields["segmentBucket"], fields["bucketEndpoint"], fields["bucketPathStyle"] = s.bucket.URL, s.bucket.Endpoint, true
	}
	text, _ := json.Marshal(fields) // plain data
	return backend.DataSourceInstanceSettings{ID: 1, UID: "soak", Name: "soak", Type: plugin.ID, JSONData: text,
		DecryptedSecureJSONData: map[string]string{"bucketAccessKey": s.bucket.AccessKey,
			"bucketSecretKey": s.bucket.SecretKey}, Updated: time.Unix(n, 0)}
}

// ask returns an answer in JSON with its notices, but without what the way of computing may change.
func (s *soak) ask(ctx context.Context, source *host.Source, from, to time.Time, query string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	r, err := source.As("Admin").QueryData(ctx, &backend.QueryDataRequest{Queries: []backend.DataQuery{{RefID: "A",
		JSON: json.RawMessage(query), Interval: time.Minute, MaxDataPoints: 1000,
		TimeRange: backend.TimeRange{From: from, To: to}}}})
	if err != nil {
		return "", err
	}
	answer := r.Responses["A"]
	if answer.Error != nil {
		return "", answer.Error
	}
	for _, frame := range answer.Frames {
		if frame.Meta != nil {
			frame.Meta.Stats = nil
		}
	}
	text, err := json.Marshal(answer.Frames)
	return string(text), err
}

// views is a query of each kind and view of a pool. health is left out, because it names the present moment.
func views() (queries []string) {
	for _, kind := range kinds.Catalog {
		for _, view := range kind.Views {
			if view.Name != "health" {
				queries = append(queries, fmt.Sprintf(`{"queryType": %q, "view": %q}`, kind.Name, view.Name))
			}
		}
	}
	return queries
}

// gauges are a process's own measures.
type gauges struct {
	goroutines, files int
	megabytes         float64
}

func measure(ctx context.Context, p *host.Process) (g gauges, err error) {
	text, err := p.CollectMetrics(ctx)
	if err != nil {
		return g, err
	}
	value := func(name string) (v float64) {
		_, rest, _ := bytes.Cut(append([]byte("\n"), text...), []byte("\n"+name+" "))
		line, _, _ := strings.Cut(string(rest), "\n")
		v, err = strconv.ParseFloat(line, 64)
		return v
	}
	return gauges{int(value("go_goroutines")), int(value("process_open_fds")),
		value("process_resident_memory_bytes") / (1 << 20)}, err
}

// newSample makes the whole pool, from which the growing one takes its rows.
func newSample(ctx context.Context, dir string, seed uint64) (samplepool.Options, error) {
	o := samplepool.Default()
	o.Seed, o.Machines, o.GPUs, o.Timezone = seed, 6, 24, "UTC"
	o.Start, o.End = time.Date(2025, 10, 22, 0, 0, 0, 0, time.UTC), time.Date(2025, 11, 12, 0, 0, 0, 0, time.UTC)
	p, err := samplepool.New(o)
	if err == nil {
		err = p.Write(ctx, dir)
	}
	return o, err
}
