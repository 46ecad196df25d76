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
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/chtc/gpureports/pkg/bucket"
	"github.com/chtc/gpureports/pkg/parallel"
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
	whole bool              // they are all that there was at a look
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
		if m.whole = json.Unmarshal(text, &m.etags) == nil && m.etags != nil; !m.whole {
			m.etags = map[string]string{} // damaged: everything is copied again
		}
	}
	return m, nil
}

// Path is the directory of the copies.
func (m *Mirror) Path() string { return m.dir }

// Kept is the directory of the copies if it outlives this process, else "".
func (m *Mirror) Kept() string {
	if m.temporary {
		return ""
	}
	return m.dir
}

// Refresh copies what has changed in the bucket, unless it was looked at a moment ago. If the bucket cannot be reached,
// the copies of an earlier look stay, also of an earlier process; without one it is an error.
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
	err := m.bucket.Patience().Ask(ctx, func(ctx context.Context) (err error) {
		objects, err = m.list(ctx)
		return err
	})
	if err != nil {
		return err
	}
	changed := !m.whole
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
	m.whole = true
	return replaceFile(m.dir, ledger, func(out *os.File) error {
		_, err := out.Write(text)
		return err
	})
}

// list returns the objects that are copied, by name.
func (m *Mirror) list(ctx context.Context) (map[string]bucket.Object, error) {
	stats := make([]*bucket.Object, len(m.names))
	var pressure []bucket.Object
	group, inner := parallel.WithContext(ctx)
	for i, name := range m.names {
		group.Go(func() error {
			o, err := m.bucket.Stat(inner, name)
			if err == nil {
				stats[i] = &o
			} else if !errors.Is(err, bucket.ErrNotFound) {
				return err
			}
			return nil
		})
	}
	group.Go(func() (err error) {
		pressure, err = m.bucket.List(inner, "job_pressure_")
		return err
	})
	if err := group.Wait(); err != nil {
		return nil, cmp.Or(ctx.Err(), err)
	}
	found := map[string]bucket.Object{}
	for i, name := range m.names {
		if stats[i] != nil {
			found[name] = *stats[i]
		}
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
