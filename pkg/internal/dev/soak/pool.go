package soak

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/chtc/gpureports/pkg/sqlitefile"
)

// pool is a directory whose month files grow, by the rows of a whole pool.
type pool struct {
	dir, whole      string
	begin, now, end time.Time
}

// stamp is a time as the collector writes it.
const stamp = "2006-01-02 15:04:05.000000"

// newPool makes a pool that has a week of snapshots.
func newPool(ctx context.Context, in string, seed uint64) (*pool, error) {
	p := &pool{dir: filepath.Join(in, "pool"), whole: filepath.Join(in, "whole")}
	for _, dir := range []string{p.dir, p.whole} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return nil, err
		}
	}
	o, err := newSample(ctx, p.whole, seed)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"chtc_owned", "masked_hosts.yaml", "jobs.db", "job_pressure_2025-10.db",
		"job_pressure_2025-11.db"} {
		text, err := os.ReadFile(filepath.Join(p.whole, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(p.dir, name), text, 0o600)
		}
		if err != nil {
			return nil, err
		}
	}
	p.begin, p.now, p.end = o.Start, o.Start, o.End
	return p, p.grow(ctx, 7*24*time.Hour)
}

// file is the name of the month file of a time.
func file(at time.Time) string { return "gpu_state_" + at.Format("2006-01") + ".db" }

// month is the path of the newest month file.
func (p *pool) month() string { return filepath.Join(p.dir, file(p.now.Add(-time.Microsecond))) }

// exec changes the newest month.
func (p *pool) exec(ctx context.Context, statement string, values ...any) error {
	db, err := sql.Open("sqlite", sqlitefile.URI(p.month(), sqlitefile.Wait()))
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, statement, values...)
	return errors.Join(err, db.Close())
}

// locked calls do while the newest month is locked.
func (p *pool) locked(ctx context.Context, do func()) error {
	db, err := sql.Open("sqlite", sqlitefile.URI(p.month(), sqlitefile.Wait()))
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(1)
	if _, err = db.ExecContext(ctx, "BEGIN EXCLUSIVE"); err == nil {
		do()
		_, err = db.ExecContext(ctx, "ROLLBACK")
	}
	return errors.Join(err, db.Close())
}

// late calls do while every fifth ad is missing from the job file.
func (p *pool) late(ctx context.Context, which int, do func()) error {
	db, err := sql.Open("sqlite", sqlitefile.URI(filepath.Join(p.dir, "jobs.db"), sqlitefile.Wait()))
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(1) // the temporary table belongs to a connection
	if _, err = db.ExecContext(ctx, "CREATE TEMP TABLE late AS SELECT * FROM ads WHERE rowid % 5 = ?", which); err == nil {
		_, err = db.ExecContext(ctx, "DELETE FROM ads WHERE rowid % 5 = ?", which)
	}
	if err == nil {
		do()
		_, err = db.ExecContext(ctx, "INSERT INTO ads SELECT * FROM late")
	}
	return errors.Join(err, db.Close())
}

// grow appends the rows of the next stretch of time, as far as the whole pool goes.
func (p *pool) grow(ctx context.Context, by time.Duration) error {
	to := p.now.Add(by)
	if to.After(p.end) {
		to = p.end
	}
	for from := p.now; from.Before(to); {
		next := time.Date(from.Year(), from.Month()+1, 1, 0, 0, 0, 0, time.UTC)
		if next.After(to) {
			next = to
		}
		db, err := sql.Open("sqlite", sqlitefile.URI(filepath.Join(p.dir, file(from)), sqlitefile.Wait()))
		if err != nil {
			return err
		}
		db.SetMaxOpenConns(1) // the attached file belongs to a connection
		for _, s := range []string{
			"ATTACH '" + filepath.Join(p.whole, file(from)) + "' AS whole",
			"CREATE TABLE IF NOT EXISTS gpu_state AS SELECT * FROM whole.gpu_state LIMIT 0",
			"INSERT INTO gpu_state SELECT * FROM whole.gpu_state WHERE timestamp >= '" + from.Format(stamp) +
				"' AND timestamp < '" + next.Format(stamp) + "' ORDER BY rowid",
		} {
			if _, err = db.ExecContext(ctx, s); err != nil {
				break
			}
		}
		if err := errors.Join(err, db.Close()); err != nil {
			return err
		}
		from, p.now = next, next
	}
	return nil
}
