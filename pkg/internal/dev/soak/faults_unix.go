//go:build unix

package soak

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// fault is something that happens, and is over when do returns.
type fault struct {
	name   string
	renews bool // a process is a new one after it
	do     func(context.Context) error
}

// all are the faults.
func (s *soak) all() []fault {
	p := s.pool
	return []fault{
		{"late rows", false, func(ctx context.Context) error {
			return p.exec(ctx, `INSERT INTO gpu_state SELECT * FROM gpu_state WHERE timestamp = (SELECT timestamp FROM gpu_state
				ORDER BY rowid LIMIT 1 OFFSET ?)`, s.random.IntN(200))
		}},
		{"edited rows", false, func(ctx context.Context) error {
			return p.exec(ctx, "UPDATE gpu_state SET State = 'Owner' WHERE rowid % 97 = ?", s.random.IntN(97))
		}},
		{"removed rows", false, func(ctx context.Context) error {
			return p.exec(ctx, "DELETE FROM gpu_state WHERE rowid % 211 = ?", s.random.IntN(211))
		}},
		{"a replaced month", false, func(context.Context) error { return replace(p.month()) }},
		{"a truncated month", false, func(ctx context.Context) error {
			text, err := os.ReadFile(p.month())
			if err != nil {
				return err
			}
			err = os.Truncate(p.month(), int64(len(text)/2))
			s.pause(ctx)
			return errors.Join(err, os.WriteFile(p.month(), text, 0o600))
		}},
		{"a month moved away", false, func(ctx context.Context) error {
			err := os.Rename(p.month(), p.month()+".away")
			s.pause(ctx)
			return errors.Join(err, os.Rename(p.month()+".away", p.month()))
		}},
		{"a locked month", false, func(ctx context.Context) error { return p.locked(ctx, func() { s.pause(ctx) }) }},
		{"a list edited", false, func(context.Context) error {
			tiers := [...]string{"tiers:\n", "tiers: {Flagship: [A100 H100]}\n", "tiers: {Flagship: [A100, H100]}\n"}
			return os.WriteFile(filepath.Join(p.dir, "gpu_tiers.yaml"), []byte(tiers[s.random.IntN(len(tiers))]), 0o600)
		}},
		{"the job file replaced", false, func(context.Context) error { return replace(filepath.Join(p.dir, "jobs.db")) }},
		{"ads that come late", false, func(ctx context.Context) error {
			return p.late(ctx, s.random.IntN(5), func() { s.pause(ctx) })
		}},
		{"a queue file replaced", false, func(context.Context) error {
			return replace(filepath.Join(p.dir, "job_pressure_"+p.now.Format("2006-01")+".db"))
		}},
		{"the bucket away", false, func(ctx context.Context) error {
			s.away.Store(true)
			s.pause(ctx)
			s.away.Store(false)
			return nil
		}},
		{"the cache wiped", false, func(context.Context) error { return os.RemoveAll(s.cache) }},
		{"the cache not writable", false, func(ctx context.Context) error { // a file is there, so that even root cannot
			err := errors.Join(os.Rename(s.cache, s.cache+".away"), os.WriteFile(s.cache, nil, 0o600))
			s.pause(ctx)
			return errors.Join(err, os.RemoveAll(s.cache), os.Rename(s.cache+".away", s.cache))
		}},
		{"the cache damaged", false, func(context.Context) error {
			return filepath.WalkDir(s.cache, func(path string, entry os.DirEntry, err error) error {
				if err == nil && entry.Type().IsRegular() && s.random.IntN(2) == 0 {
					_ = os.WriteFile(path, []byte("damaged"), 0o600) // it may be gone
				}
				return nil
			})
		}},
		{"a process killed", true, func(context.Context) (err error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			i := s.random.IntN(replicas)
			_ = syscall.Kill(s.long[i].PID(), syscall.SIGKILL)
			s.long[i].Close()
			s.long[i], err = s.start()
			return err
		}},
		{"a process stopped", false, func(ctx context.Context) error {
			pid := s.long[s.random.IntN(replicas)].PID()
			err := syscall.Kill(pid, syscall.SIGSTOP)
			s.pause(ctx)
			return errors.Join(err, syscall.Kill(pid, syscall.SIGCONT))
		}},
	}
}

// replace puts a copy of a file in its place.
func replace(path string) error {
	text, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path+".new", text, 0o600)
	}
	return errors.Join(err, os.Rename(path+".new", path))
}

// pause lets the viewers meet a fault.
func (s *soak) pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(time.Duration(500+s.random.IntN(2000)) * time.Millisecond):
	}
}
