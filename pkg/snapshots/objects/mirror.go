package objects

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/chtc/gpureports/pkg/bucket"
	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/segcache"
	"github.com/chtc/gpureports/pkg/snapshots"
)

// Mirror keeps copies of a bucket's other objects that are read from files: the lists, the job file and the queue
// files. A copy is of one version of its object as a whole. Each mirror has a folder of its own, so nothing that another
// process adds or removes shows there.
type Mirror struct {
	bucket *bucket.Bucket
	path   string // of its folder
	names  []string

	turn  *semaphore.Weighted // who refreshes, and uses what follows
	shown map[string]string   // the versions in the folder, by name
	fresh time.Time           // of the last look that succeeded
}

const (
	// freshFor is how old a look may be: the lists change a few times a year, the other files every few minutes.
	freshFor = 20 * time.Second
	// piece is the size of one request for a large file.
	piece = 8 << 20
	// abandoned is the age of an unfinished copy, and unused that of a folder, of a process that is gone.
	abandoned = time.Hour
	unused    = 7 * 24 * time.Hour
)

var queueFile = regexp.MustCompile(`^job_pressure_\d{4}-\d{2}\.(db|parquet)$`)

// OpenMirror returns a mirror of the files of some names, and of queue files, below cacheDir, or in a temporary
// directory if that is "". It copies nothing yet.
func OpenMirror(b *bucket.Bucket, o bucket.Options, cacheDir string, names ...string) (m *Mirror, err error) {
	m = &Mirror{bucket: b, names: names, turn: semaphore.NewWeighted(1), shown: map[string]string{}}
	if cacheDir != "" {
		m.path, err = viewIn(cacheDir, "bucket-"+keyOf(o)[:16])
	}
	if m.path == "" { // the health check says what is wrong with the cache directory
		m.path, err = os.MkdirTemp("", "gpureports-bucket-")
	}
	if err != nil {
		return nil, fmt.Errorf("a directory for copies out of the bucket: %w", err)
	}
	return m, nil
}

// Names of folders of mirrors, and of files that are being written.
const (
	viewPrefix = "view-"
	partPrefix = ".copy-"
)

// viewIn makes a folder for a mirror in a folder of the cache directory, which must be this user's own, and removes what
// processes that are gone have left.
func viewIn(cacheDir, folder string) (string, error) {
	root, err := segcache.OpenFolder(cacheDir, folder)
	if err != nil {
		return "", err
	}
	defer root.Close()
	base := filepath.Join(cacheDir, folder)
	for pattern, age := range map[string]time.Duration{viewPrefix + "*": unused,
		filepath.Join(viewPrefix+"*", partPrefix+"*"): abandoned} {
		left, _ := filepath.Glob(filepath.Join(base, pattern)) // the pattern is one
		for _, path := range left {
			if info, err := os.Lstat(path); err == nil && time.Since(info.ModTime()) > age {
				_ = os.RemoveAll(path) // or next time
			}
		}
	}
	return os.MkdirTemp(base, viewPrefix)
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
		_ = os.Chtimes(m.path, m.fresh, m.fresh) // it is in use; if that does not show, it is made anew
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

// copy puts an object under its name, all of one version.
func (m *Mirror) copy(ctx context.Context, name string, o bucket.Object) error {
	out, err := os.CreateTemp(m.path, partPrefix+"*")
	if err != nil {
		return fmt.Errorf("a copy out of the bucket: %w", err)
	}
	err = errors.Join(m.write(ctx, o, out), out.Close())
	if err == nil {
		err = os.Chtimes(out.Name(), time.Time{}, o.Modified)
	}
	if err == nil {
		err = os.Rename(out.Name(), filepath.Join(m.path, name))
	}
	if err != nil {
		return errors.Join(err, os.Remove(out.Name()))
	}
	return nil
}

// write writes an object: piece by piece, or as a whole if its pieces could be of two versions.
func (m *Mirror) write(ctx context.Context, o bucket.Object, out io.Writer) error {
	condition := version{o}.condition()
	for at := int64(0); at < o.Size && condition != ""; at += piece {
		data, err := m.bucket.GetRange(ctx, o.Key, condition, at, min(piece, o.Size-at))
		if at == 0 && errors.Is(err, bucket.ErrPrecondition) && differs(ctx, m.bucket, o) {
			condition = ""
			break
		}
		if err == nil {
			_, err = out.Write(data)
		}
		if err != nil {
			return err
		}
	}
	if condition != "" {
		return nil
	}
	data, err := whole(ctx, m.bucket, o)
	if err == nil {
		_, err = out.Write(data)
	}
	return err
}

// Close removes the folder.
func (m *Mirror) Close() error {
	if m == nil {
		return nil
	}
	return os.RemoveAll(m.path)
}
