package objects

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
	"golang.org/x/sync/semaphore"

	"github.com/chtc/gpureports/pkg/bucket"
	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/segcache"
)

// Mirror keeps copies of a bucket's other objects that are read from files: the lists, the job file and the queue
// files. A copy is of one version of its object as a whole.
type Mirror struct {
	bucket    *bucket.Bucket
	dir       string
	temporary bool
	names     []string

	turn  *semaphore.Weighted // who refreshes, and uses what follows
	etags map[string]string   // of the copies, by name
	whole bool                // they are all that there was at a look
	fresh time.Time           // of the last look that succeeded
}

const (
	// freshFor is how old a look may be: the lists change a few times a year, the other files every few minutes.
	freshFor = 20 * time.Second
	// piece is the size of one request for a large file.
	piece = 8 << 20
	// ledger names the file with the ETags of the copies.
	ledger = ".etags.json"
)

var queueFile = regexp.MustCompile(`^job_pressure_\d{4}-\d{2}\.(db|parquet)$`)

// OpenMirror returns a mirror of the files of some names, and of queue files, in a directory of its own below
// cacheDir, or a temporary one if that is "". It copies nothing yet.
func OpenMirror(b *bucket.Bucket, o bucket.Options, cacheDir string, names ...string) (*Mirror, error) {
	m := &Mirror{bucket: b, names: names, turn: semaphore.NewWeighted(1), etags: map[string]string{}}
	var err error
	folder := fmt.Sprintf("bucket-%016x", xxhash.Sum64String(o.Endpoint+"\x00"+o.Name()))
	m.dir = filepath.Join(cacheDir, folder)
	if m.temporary = cacheDir == "" || !usable(cacheDir, folder); m.temporary { // the health check says what is wrong
		m.dir, err = os.MkdirTemp("", "gpureports-bucket-")
	}
	if err != nil {
		return nil, fmt.Errorf("a directory for copies out of the bucket: %w", err)
	}
	if text, err := os.ReadFile(filepath.Join(m.dir, ledger)); err == nil {
		if m.whole = json.Unmarshal(text, &m.etags) == nil && m.etags != nil; !m.whole {
			m.etags = map[string]string{} // damaged: everything is copied again
		}
	}
	return m, nil
}

// usable reports whether a folder of the cache directory is this user's own, and files can be written into it. It makes
// the folder if there is none.
func usable(cacheDir, folder string) bool {
	root, err := segcache.OpenFolder(cacheDir, folder)
	if err != nil {
		return false
	}
	defer root.Close()
	file, err := os.CreateTemp(filepath.Join(cacheDir, folder), ".copy-*")
	return err == nil && errors.Join(file.Close(), os.Remove(file.Name())) == nil
}

// Path is the directory of the copies.
func (m *Mirror) Path() string { return m.dir }

// Refresh copies the changed objects of the bucket, unless it was listed a moment ago. If the bucket cannot be reached,
// earlier copies stay, even those of an earlier process; without any it is an error.
func (m *Mirror) Refresh(ctx context.Context) error {
	if err := m.turn.Acquire(ctx, 1); err != nil {
		return err
	}
	defer m.turn.Release(1)
	if time.Since(m.fresh) < freshFor {
		return nil
	}
	err := m.refresh(ctx)
	if errors.Is(err, bucket.ErrUnreachable) && m.whole {
		return nil // the snapshots say so
	}
	if err == nil {
		m.fresh = time.Now()
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
	changed := !m.whole
	if err := m.removeUnknown(); err != nil {
		return err
	}
	for name := range m.etags {
		if _, there := objects[name]; !there {
			if err := os.Remove(filepath.Join(m.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("remove a copy out of the bucket: %w", err)
			}
			delete(m.etags, name)
			changed = true
		}
	}
	for name, o := range objects {
		if info, err := os.Stat(filepath.Join(m.dir, name)); err == nil && m.etags[name] == o.ETag && info.Size() == o.Size {
			continue
		}
		if err := m.copy(ctx, name, o); errors.Is(err, bucket.ErrPrecondition) || errors.Is(err, bucket.ErrNotFound) {
			continue // it is being replaced: the next refresh finds the new one
		} else if err != nil {
			return err
		}
		m.etags[name] = o.ETag
		changed = true
	}
	if !changed {
		return nil
	}
	text, err := json.Marshal(m.etags)
	if err != nil {
		return err
	}
	m.whole = true
	return replaceFile(m.dir, ledger, func(out *os.File) error {
		_, err := out.Write(text)
		return err
	})
}

// removeUnknown removes files that the ledger does not list, because files from elsewhere are not copies.
func (m *Mirror) removeUnknown() error {
	entries, err := os.ReadDir(m.dir)
	for _, e := range entries {
		name := e.Name()
		if _, known := m.etags[name]; known || name == ledger || strings.HasPrefix(name, ".copy-") {
			continue
		}
		err = errors.Join(err, os.RemoveAll(filepath.Join(m.dir, name)))
	}
	if err != nil {
		return fmt.Errorf("remove files that are not copies from the bucket: %w", err)
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

// copy fetches an object piece by piece, all of one version.
func (m *Mirror) copy(ctx context.Context, name string, o bucket.Object) error {
	err := replaceFile(m.dir, name, func(out *os.File) error {
		for at := int64(0); at < o.Size; at += piece {
			data, err := m.bucket.GetRange(ctx, name, o.ETag, at, min(piece, o.Size-at))
			if err != nil {
				return err
			}
			if _, err := out.Write(data); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return os.Chtimes(filepath.Join(m.dir, name), time.Time{}, o.Modified)
}

// Close removes the copies, unless they are below a cache directory.
func (m *Mirror) Close() error {
	if m == nil || !m.temporary {
		return nil
	}
	return os.RemoveAll(m.dir)
}

// replaceFile writes a temporary file in the same folder and renames it.
func replaceFile(dir, name string, write func(*os.File) error) error {
	out, err := os.CreateTemp(dir, ".copy-*")
	if err != nil {
		return fmt.Errorf("a copy out of the bucket: %w", err)
	}
	if err := errors.Join(write(out), out.Close()); err != nil {
		return errors.Join(err, os.Remove(out.Name()))
	}
	return os.Rename(out.Name(), filepath.Join(dir, name))
}
