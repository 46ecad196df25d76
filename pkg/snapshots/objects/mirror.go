package objects

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/chtc/gpureports/pkg/bucket"
)

// Mirror keeps copies of what lies beside the snapshots of a bucket, and is read from files: the lists, the job file
// and job_pressure files. A copy is of one version of its object as a whole.
type Mirror struct {
	bucket    *bucket.Bucket
	dir       string
	temporary bool
	names     []string

	turn  chan struct{}     // 1 token: who refreshes, and uses what follows
	etags map[string]string // of the copies, by name
	fresh time.Time         // of the last look that succeeded
}

const (
	// freshFor is how old a look may be: the lists change a few times a year, the other files every few minutes.
	freshFor = 20 * time.Second
	// piece is what is fetched at once of a large file.
	piece = 8 << 20
	// ledger names the file with the ETags of the copies.
	ledger = ".etags.json"
)

var pressureFile = regexp.MustCompile(`^job_pressure_\d{4}-\d{2}\.db$`)

// OpenMirror returns a mirror of the files of some names, and of job_pressure files, in a directory of its own below
// cacheDir, or a temporary one if that is "". It copies nothing yet.
func OpenMirror(b *bucket.Bucket, o bucket.Options, cacheDir string, names ...string) (*Mirror, error) {
	m := &Mirror{bucket: b, names: names, turn: make(chan struct{}, 1), etags: map[string]string{}}
	var err error
	if cacheDir == "" {
		m.temporary = true
		m.dir, err = os.MkdirTemp("", "gpureports-bucket-")
	} else {
		m.dir = filepath.Join(cacheDir, fmt.Sprintf("bucket-%016x", xxhash.Sum64String(o.Endpoint+"\x00"+o.Name())))
		err = os.MkdirAll(m.dir, 0o700)
	}
	if err != nil {
		return nil, fmt.Errorf("a directory for copies out of the bucket: %w", err)
	}
	if text, err := os.ReadFile(filepath.Join(m.dir, ledger)); err == nil {
		if json.Unmarshal(text, &m.etags) != nil || m.etags == nil {
			m.etags = map[string]string{} // damaged: everything is copied again
		}
	}
	return m, nil
}

// Path is the directory of the copies.
func (m *Mirror) Path() string { return m.dir }

// Refresh copies what has changed in the bucket, unless it was looked at a moment ago. If the bucket cannot be reached,
// the copies that there are stay; without any it is an error.
func (m *Mirror) Refresh(ctx context.Context) error {
	select {
	case m.turn <- struct{}{}:
		defer func() { <-m.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if time.Since(m.fresh) < freshFor {
		return nil
	}
	err := m.refresh(ctx)
	if errors.Is(err, bucket.ErrUnreachable) && !m.fresh.IsZero() {
		return nil // the snapshots say so
	}
	if err == nil {
		m.fresh = time.Now()
	}
	return err
}

func (m *Mirror) refresh(ctx context.Context) error {
	objects, err := m.list(ctx)
	if err != nil {
		return err
	}
	changed := false
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
			continue // it is being replaced: the next look finds what is there then
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
	return m.replace(ledger, func(out *os.File) error {
		_, err := out.Write(text)
		return err
	})
}

// list returns the objects that are copied, by name.
func (m *Mirror) list(ctx context.Context) (map[string]bucket.Object, error) {
	found := map[string]bucket.Object{}
	for _, name := range m.names {
		o, err := m.bucket.Stat(ctx, name)
		switch {
		case err == nil:
			found[name] = o
		case !errors.Is(err, bucket.ErrNotFound):
			return nil, err
		}
	}
	pressure, err := m.bucket.List(ctx, "job_pressure_")
	if err != nil {
		return nil, err
	}
	for _, o := range pressure {
		if pressureFile.MatchString(o.Key) {
			found[o.Key] = o
		}
	}
	return found, nil
}

// copy fetches an object piece by piece, all of one version.
func (m *Mirror) copy(ctx context.Context, name string, o bucket.Object) error {
	err := m.replace(name, func(out *os.File) error {
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

// replace writes a file beside the one of a name and puts it in its place.
func (m *Mirror) replace(name string, write func(*os.File) error) error {
	out, err := os.CreateTemp(m.dir, ".copy-*")
	if err != nil {
		return fmt.Errorf("a copy out of the bucket: %w", err)
	}
	if err := errors.Join(write(out), out.Close()); err != nil {
		return errors.Join(err, os.Remove(out.Name()))
	}
	return os.Rename(out.Name(), filepath.Join(m.dir, name))
}

// Close removes the copies, unless they are below a cache directory.
func (m *Mirror) Close() error {
	if m == nil || !m.temporary {
		return nil
	}
	return os.RemoveAll(m.dir)
}
