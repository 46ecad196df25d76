package objects

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/chtc/gpureports/pkg/bucket"
	"github.com/chtc/gpureports/pkg/files"
	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/segcache"
	"github.com/chtc/gpureports/pkg/snapshots"
)

// Mirror keeps copies of a bucket's other objects that are read from files: the lists, the job file and the queue
// files. A copy is of one version of its object as a whole. Each mirror has a folder of its own, so nothing that
// another process adds or removes shows there.
type Mirror struct {
	bucket *bucket.Bucket
	path   string   // the folder
	held   *os.File // the folder's lock; nil if it has none
	names  []string

	turn  *semaphore.Weighted // who refreshes, and uses what follows
	shown map[string]string   // the versions in the folder, by name
	fresh time.Time           // when it was refreshed last
}

const (
	// freshFor is how old a look may be: the lists change a few times a year, the other files every few minutes.
	freshFor = 20 * time.Second
	// piece is how much of a large file is held at once.
	piece = 8 << 20
	// unused is the age of a folder whose process is taken to be gone, on a volume without locks.
	unused = 7 * 24 * time.Hour
)

var queueFile = regexp.MustCompile(`^job_pressure_\d{4}-\d{2}\.(db|parquet)$`)

// OpenMirror returns a mirror of the files of some names, and of queue files, below cacheDir, or in a temporary
// directory if that is "". It copies nothing yet.
func OpenMirror(b *bucket.Bucket, o bucket.Options, cacheDir string, names ...string) (m *Mirror, err error) {
	m = &Mirror{bucket: b, names: names, turn: semaphore.NewWeighted(1), shown: map[string]string{}}
	if cacheDir != "" {
		m.path, m.held, err = viewIn(cacheDir, "bucket-"+keyOf(o)[:16])
	}
	if m.path == "" || err != nil { // the health check says what is wrong with the cache directory
		m.path, err = os.MkdirTemp("", "gpureports-bucket-")
	}
	if err != nil {
		return nil, fmt.Errorf("a directory for copies out of the bucket: %w", err)
	}
	return m, nil
}

// Names of folders of mirrors, and of their locks.
const (
	viewPrefix = "view-"
	lockName   = ".lock"
)

// viewIn makes a folder for a mirror in a folder of the cache directory, which must be this user's own, and removes
// the folders that killed processes have left. A mirror holds the lock of its folder until it is closed.
func viewIn(cacheDir, folder string) (path string, held *os.File, err error) {
	root, err := segcache.OpenFolder(cacheDir, folder)
	if err != nil {
		return "", nil, err
	}
	defer root.Close()
	base := filepath.Join(cacheDir, folder)
	left, _ := filepath.Glob(filepath.Join(base, viewPrefix+"*")) // the pattern is one
	for _, view := range left {
		info, err := os.Lstat(view)
		if err != nil {
			continue
		}
		free, err := files.Lock(filepath.Join(view, lockName))
		if err == nil || errors.Is(err, files.ErrNoLocks) && time.Since(info.ModTime()) > unused {
			_ = os.RemoveAll(view) // or next time
		}
		if free != nil {
			_ = free.Close() // it is empty
		}
	}
	if path, err = os.MkdirTemp(base, viewPrefix); err != nil {
		return "", nil, err
	}
	if held, err = files.Lock(filepath.Join(path, lockName)); errors.Is(err, files.ErrNoLocks) {
		err = nil
	}
	return path, held, err
}

// Path is the directory of the files.
func (m *Mirror) Path() string { return m.path }

// Refresh copies the changed objects of the bucket, unless it was listed a moment ago. If the bucket cannot be reached,
// earlier files stay; without any look that succeeded it is an error.
func (m *Mirror) Refresh(ctx context.Context) error {
	if err := m.turn.Acquire(ctx, 1); err != nil {
		return err
	}
	defer m.turn.Release(1)
	if time.Since(m.fresh) < freshFor {
		return nil
	}
	err := m.refresh(ctx)
	if errors.Is(err, bucket.ErrUnreachable) && !m.fresh.IsZero() {
		return nil // the snapshots say so
	}
	if err == nil {
		m.fresh = time.Now()
		_ = os.Chtimes(m.path, m.fresh, m.fresh) // it is in use
	}
	return err
}

func (m *Mirror) refresh(ctx context.Context) error {
	var objects map[string]bucket.Object
	err := m.bucket.Breaker.Ask(ctx, func(ctx context.Context) (err error) {
		objects, err = m.list(ctx)
		return err
	})
	if err != nil {
		return err
	}
	for name := range m.shown {
		if _, there := objects[name]; there {
			continue
		}
		if err := os.Remove(filepath.Join(m.path, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove a copy out of the bucket: %w", err)
		}
		delete(m.shown, name)
	}
	for name, o := range objects {
		id := version{o}.id()
		if _, err := os.Lstat(filepath.Join(m.path, name)); err == nil && m.shown[name] == id {
			continue
		}
		err := m.copy(ctx, name, o)
		if errors.Is(offline(err), snapshots.ErrStale) {
			continue // it is being replaced: the next refresh finds the new one
		}
		if err != nil {
			return err
		}
		m.shown[name] = id
	}
	return nil
}

// list returns the objects that are copied, by name.
func (m *Mirror) list(ctx context.Context) (map[string]bucket.Object, error) {
	// first, because the refusal of a HEAD has no body that says why
	queues, err := m.bucket.List(ctx, "job_pressure_")
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	found := map[string]bucket.Object{}
	group, inner := parallel.WithContext(ctx)
	for _, name := range m.names {
		group.Go(func() error {
			o, err := m.bucket.Stat(inner, name)
			if errors.Is(err, bucket.ErrNotFound) {
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			found[name] = o
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, cmp.Or(ctx.Err(), err)
	}
	for _, o := range queues {
		if queueFile.MatchString(o.Key) {
			found[o.Key] = o
		}
	}
	return found, nil
}

// copy puts an object under its name, piece by piece, all of one version.
func (m *Mirror) copy(ctx context.Context, name string, o bucket.Object) error {
	return files.Put(filepath.Join(m.path, name), func(out *os.File) error {
		for at := int64(0); at < o.Size; {
			begin, data, err := load(ctx, m.bucket, o, at, min(at+piece, o.Size))
			if err == nil && begin != at { // the pieces before may be of another version
				err = bucket.ErrPrecondition
			}
			if err == nil {
				_, err = out.Write(data)
			}
			if err != nil {
				return err
			}
			at += int64(len(data))
		}
		return os.Chtimes(out.Name(), time.Time{}, o.Modified)
	})
}

// Close removes the folder.
func (m *Mirror) Close() error {
	if m == nil {
		return nil
	}
	err := os.RemoveAll(m.path)
	if m.held != nil {
		err = errors.Join(err, m.held.Close())
	}
	return err
}
