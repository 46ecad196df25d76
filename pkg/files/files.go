// Package files writes files that other programs read. A file appears under its name as a whole or not at all, and no
// writer destroys what another one wrote: each has a temporary file of its own, and the last step refuses to take the
// place of a file that came meanwhile.
package files

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/chtc/gpureports/pkg/parallel"
)

// Put writes a file that takes the place of the one of the name, whoever wrote that.
func Put(path string, write func(out *os.File) error) error {
	return through(path, write, func(temporary string) error { return os.Rename(temporary, path) })
}

// Create writes a file that is not there yet. SQLite may write it, by the name of out. Logs and journals that SQLite
// left of an earlier file of the name are set aside before, because it would take them for those of the new one; note
// says so, "" if there are none. Errors: fs.ErrExist if another file has the name by now.
func Create(ctx context.Context, path string, write func(out *os.File) error) (note string, err error) {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return "", cmp.Or(err, fs.ErrExist)
	}
	err = through(path, write, func(temporary string) (err error) {
		if note, err = setAside(ctx, path); err != nil {
			return err
		}
		return link(temporary, path)
	})
	return note, err
}

// Replace writes a file made of the one of the name, if there is one, which write reads. It holds the lock of the name
// meanwhile; if a program that does not know the lock changes the file, write is called again. Errors: ErrLocked,
// ErrNoLocks; the file changes each time.
func Replace(ctx context.Context, path string, write func(out *os.File) error) error {
	held, err := lockWithin(ctx, path)
	if err != nil {
		return err
	}
	defer held.Close()
	const tries = 3
	for n := 1; ; n++ {
		before, err := stat(path)
		if err != nil {
			return err
		}
		err = through(path, write, func(temporary string) error {
			now, err := stat(path)
			switch {
			case err != nil:
				return err
			case !same(before, now):
				return errChanged
			case now == nil:
				return link(temporary, path)
			}
			return os.Rename(temporary, path)
		})
		if n == tries || !errors.Is(err, errChanged) && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
}

var errChanged = errors.New("another program changes it at the same time: let only one of them write it")

// abandoned is how long after the last write a temporary file is left over from a killed process.
const abandoned = 24 * time.Hour

// suffixes of SQLite's files next to one of its databases.
var suffixes = []string{"-wal", "-shm", "-journal"}

// through writes a temporary file, lets publish give it the name, and removes it, and those of killed processes.
func through(path string, write func(*os.File) error, publish func(temporary string) error) (err error) {
	dir, prefix := filepath.Dir(path), "."+filepath.Base(path)+"."
	if err := sweep(dir, prefix); err != nil {
		return err
	}
	temporary := filepath.Join(dir, fmt.Sprintf("%s%016x.tmp", prefix, rand.Uint64()))
	out, err := os.OpenFile(temporary, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644) // #nosec G302 -- Grafana's user reads it
	if err != nil {
		return err
	}
	defer func() {
		for _, suffix := range append([]string{""}, suffixes...) {
			err = errors.Join(err, remove(temporary+suffix))
		}
	}()
	if err := errors.Join(write(out), out.Sync(), out.Close()); err != nil {
		return err
	}
	return publish(temporary)
}

// sweep removes the temporary files that killed processes left.
func sweep(dir, prefix string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if name := entry.Name(); strings.HasPrefix(name, prefix) && strings.Contains(name, ".tmp") {
			info, err := entry.Info()
			if err == nil && time.Since(info.ModTime()) > abandoned {
				err = remove(filepath.Join(dir, name))
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// remove removes a file, which may be gone already.
func remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// link gives a file another name, unless one has it. On a volume without links, a claim beside it keeps others out.
func link(temporary, path string) error {
	err := hardLink(temporary, path)
	if !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, syscall.EPERM) { // the volume has links
		return err
	}
	claim := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".claim")
	claimed, err := os.OpenFile(claim, os.O_CREATE|os.O_EXCL, 0o644) // #nosec G302 -- it is empty
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("another program creates it: if none does, remove %s", claim)
	}
	if err != nil {
		return err
	}
	defer func() { _ = errors.Join(claimed.Close(), os.Remove(claim)) }() // a claim that stays is an error of the next one
	if there, err := stat(path); there != nil || err != nil {
		return errors.Join(err, fs.ErrExist)
	}
	return os.Rename(temporary, path)
}

var hardLink = os.Link

// setAside renames what SQLite left of a file that is gone, and returns a sentence about it. Rows that were committed
// may be in a log only.
func setAside(ctx context.Context, path string) (note string, err error) {
	left := func() (all []string, err error) {
		for _, suffix := range suffixes {
			if there, err := stat(path + suffix); err != nil {
				return nil, err
			} else if there != nil {
				all = append(all, suffix)
			}
		}
		return all, nil
	}
	if all, err := left(); len(all) == 0 || err != nil {
		return "", err
	}
	held, err := lockWithin(ctx, path) // so that no new file's log is renamed
	if err != nil {
		return "", err
	}
	defer held.Close()
	if there, err := stat(path); there != nil || err != nil {
		return "", errors.Join(err, fs.ErrExist)
	}
	all, err := left()
	if err != nil {
		return "", err
	}
	set := time.Now().UTC().Format(".left-2006-01-02T150405")
	for i, suffix := range all {
		if err := os.Rename(path+suffix, path+suffix+set); err != nil {
			return "", err
		}
		all[i] = filepath.Base(path) + suffix + set
	}
	return fmt.Sprintf("SQLite's log of an earlier %s, which was moved away, is set aside as %s: it may hold rows that "+
		"the moved file lacks", filepath.Base(path), strings.Join(all, ", ")), nil
}

// Bare returns an error of a file without its path: viewers see base names only.
func Bare(err error) error {
	var path *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &path):
		return path.Err
	case errors.As(err, &link):
		return link.Err
	}
	return err
}

// Stat describes a file inside a directory. Errors: it is missing, or no regular file.
func Stat(root *os.Root, name string) (os.FileInfo, error) {
	info, err := root.Stat(name)
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a regular file")
	}
	return info, err
}

// stat describes a file, nil if there is none.
func stat(path string) (os.FileInfo, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return info, err
}

// same reports whether a file has not been written in between.
func same(before, now os.FileInfo) bool {
	if before == nil || now == nil {
		return before == now
	}
	return os.SameFile(before, now) && before.Size() == now.Size() && before.ModTime().Equal(now.ModTime())
}

var (
	// ErrLocked is the error of a lock that another program holds.
	ErrLocked = errors.New("another program holds its lock")
	// ErrNoLocks is the error of a volume without locks.
	ErrNoLocks = errors.New("its volume has no locks, so that two writers could destroy each other's rows: use --format " +
		"sqlite, or a bucket (--to)")
)

// patience is how long a writer waits for another one of the same file.
const patience = 10 * time.Second

// Lock takes the lock of a lock file, which it creates if there is none and which stays. The lock goes with the closing
// of the file, and so with the process. Errors: ErrLocked, ErrNoLocks.
func Lock(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644) // #nosec G302 -- it is empty
	if err != nil {
		return nil, err
	}
	if err := flock(file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// lockWithin takes the lock of a file of a name, which is a file next to it, and waits for it.
func lockWithin(ctx context.Context, path string) (*os.File, error) {
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		held, err := Lock(filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".lock"))
		if err == nil || !errors.Is(err, ErrLocked) {
			return held, err
		}
		if parallel.Wait(limited, 20*time.Millisecond) != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			return nil, fmt.Errorf("%w for more than %s", err, patience)
		}
	}
}
