package samplepool

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	_ "modernc.org/sqlite" // driver
)

// table is the table of a SQLite file that is being made.
type table struct {
	name   string // of the file
	db     *sql.DB
	tx     *sql.Tx
	insert *sql.Stmt
}

// newTable makes a file with a table. A file that exists is an error.
func newTable(ctx context.Context, dir, name, create string) (*table, error) {
	path := filepath.Join(dir, name)
	if _, err := os.Lstat(path); err == nil {
		return nil, fmt.Errorf("writing a sample pool: %s exists already", name)
	}
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(OFF)&_pragma=synchronous(OFF)"+
		"&_pragma=locking_mode(EXCLUSIVE)&_pragma=cache_size(-16000)")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	t := &table{name: name, db: db}
	if _, err = db.ExecContext(ctx, create); err == nil {
		if t.tx, err = db.Begin(); err == nil {
			values := strings.Repeat(",?", strings.Count(create, ","))
			t.insert, err = t.tx.PrepareContext(ctx, "INSERT INTO "+strings.Fields(create)[2]+" VALUES (?"+values+")")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("writing a sample pool's %s: %w", name, errors.Join(err, db.Close()))
	}
	return t, nil
}

func (t *table) add(ctx context.Context, values ...any) error {
	_, err := t.insert.ExecContext(ctx, values...)
	return err
}

// close commits the rows, after further statements.
func (t *table) close(statements ...string) (err error) {
	for _, s := range statements {
		if _, failed := t.tx.Exec(s); failed != nil {
			err = errors.Join(err, failed)
		}
	}
	if err = errors.Join(err, t.tx.Commit(), t.db.Close()); err != nil {
		return fmt.Errorf("writing a sample pool's %s: %w", t.name, err)
	}
	return nil
}
