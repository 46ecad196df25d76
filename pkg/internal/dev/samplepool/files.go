package samplepool

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	_ "modernc.org/sqlite" // driver

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/snapshots/parquet"
)

// Write writes everything (WriteSnapshots, WriteQueues, WriteAds, WriteTruth) into dir.
func (p *Pool) Write(ctx context.Context, dir string) error {
	for _, write := range []func(context.Context, string) error{p.WriteSnapshots, p.WriteQueues, p.WriteAds,
		p.WriteTruth} {
		if err := write(ctx, dir); err != nil {
			return err
		}
	}
	return nil
}

// WriteSnapshots writes gpu_state_YYYY-MM.db (or .parquet), chtc_owned and masked_hosts.yaml into dir. A file that
// exists is an error.
func (p *Pool) WriteSnapshots(ctx context.Context, dir string) (err error) {
	if err := p.writeLists(dir); err != nil {
		return err
	}
	var file *monthFile
	defer func() {
		if file != nil {
			err = errors.Join(err, file.close())
		}
	}()
	month := ""
	for shot, err := range p.Snapshots(ctx) {
		if err != nil {
			return err
		}
		if shot.Month != month {
			if file != nil {
				if err := file.close(); err != nil {
					return err
				}
			}
			month = shot.Month
			if file, err = p.newMonthFile(ctx, dir, month); err != nil {
				return err
			}
		}
		if err := file.add(ctx, shot); err != nil {
			return err
		}
	}
	return nil
}

// monthFile is a month of snapshots that is being written.
type monthFile struct {
	columns []column
	insert  func(ctx context.Context, values ...any) error
	close   func() error
}

// newMonthFile makes a month's file, with the columns that the collector had then.
func (p *Pool) newMonthFile(ctx context.Context, dir, month string) (*monthFile, error) {
	newer := month >= p.options.NewColumns.In(p.zone).Format("2006-01")
	known := slices.DeleteFunc(slices.Clone(columns), func(c column) bool { return c.newer && !newer })
	if p.options.Format == "parquet" {
		return newParquetFile(filepath.Join(dir, snapshots.MonthFile(month, "parquet")), known)
	}
	var definitions []string
	for _, c := range known {
		definitions = append(definitions, c.definition)
	}
	t, err := newTable(ctx, dir, snapshots.MonthFile(month, "db"),
		"CREATE TABLE gpu_state (\n\t"+strings.Join(definitions, ", \n\t")+"\n)")
	if err != nil {
		return nil, err
	}
	return &monthFile{known, t.add, func() error { return t.close() }}, nil
}

func (f *monthFile) add(ctx context.Context, shot Snapshot) error {
	values := make([]any, len(f.columns))
	for i := range shot.Rows {
		for n, c := range f.columns {
			values[n] = c.value(&shot.Rows[i], shot.Timestamp)
		}
		if err := f.insert(ctx, values...); err != nil {
			return fmt.Errorf("writing a sample pool's snapshot of %s: %w", shot.Timestamp, err)
		}
	}
	return ctx.Err()
}

// writeLists writes the files of CHTC's machines and of excluded hosts.
func (p *Pool) writeLists(dir string) error {
	owned, excluded := "# machines that CHTC owns\n", ""
	for _, m := range p.machines {
		if m.Ownership == pool.CHTCOwned {
			owned += m.Name + "\n"
		}
		if m.Excluded {
			excluded += "\n  " + strings.TrimSuffix(m.Name, domain) + ": Prioritized by a hard-coded start expression"
		}
	}
	return cmp.Or(writeFile(dir, "chtc_owned", owned+"retiredgpu4000"+domain+"\n"),
		writeFile(dir, "masked_hosts.yaml", "excluded_hosts:"+cmp.Or(excluded, " {}")+"\n"))
}

// column is a column of gpu_state.
type column struct {
	definition string
	newer      bool // older collectors did not have it
	value      func(r *Row, timestamp string) any
}

// name is the column's name in the table.
func (c column) name() string { return strings.Trim(strings.Fields(c.definition)[0], `"`) }

// orNull is a value, NULL where there is none.
func orNull[T any](value T, there bool) any {
	if !there {
		return nil
	}
	return value
}

func text(s string) any { return orNull(s, s != "") }

// columns are all columns, in the order of the table.
var columns = []column{
	{`"Name" TEXT`, false, func(r *Row, _ string) any { return text(r.Name) }},
	{`"AssignedGPUs" TEXT`, false, func(r *Row, _ string) any { return text(r.AssignedGPUs) }},
	{`"AvailableGPUs" TEXT`, false, func(r *Row, _ string) any { return text(r.AvailableGPUs) }},
	{`"State" TEXT`, false, func(r *Row, _ string) any { return text(r.State) }},
	{`"GPUs_DeviceName" TEXT`, false, func(r *Row, _ string) any { return text(r.DeviceName) }},
	{`"GPUs_GlobalMemoryMb" BIGINT`, false, func(r *Row, _ string) any {
		return orNull(int64(r.MemoryMB), r.MemoryMB != 0)
	}},
	{`"PrioritizedProjects" TEXT`, false, func(r *Row, _ string) any {
		return orNull(r.PrioritizedProjects, !r.ProjectsNull)
	}},
	{`"GPUsAverageUsage" FLOAT`, false, func(r *Row, _ string) any { return orNull(r.AverageUsage, r.UsageReported) }},
	{`"Machine" TEXT`, false, func(r *Row, _ string) any { return text(r.Machine) }},
	{`"PreventJobsReason" TEXT`, true, func(r *Row, _ string) any { return text(r.PreventJobsReason) }},
	{`"RemoteOwner" TEXT`, false, func(r *Row, _ string) any { return text(r.RemoteOwner) }},
	{`"GlobalJobId" TEXT`, false, func(r *Row, _ string) any { return text(r.GlobalJobID) }},
	{`timestamp DATETIME`, false, func(_ *Row, timestamp string) any { return timestamp }},
	{`"Disk" INTEGER`, true, func(*Row, string) any { return int64(1000000) }},
	{`"Cpus" INTEGER`, true, func(r *Row, _ string) any { return int64(r.Cpus) }},
	{`"Memory" INTEGER`, true, func(r *Row, _ string) any { return int64(r.Memory) }},
	{`"SlotType" TEXT`, true, func(r *Row, _ string) any { return text(r.SlotType) }},
}

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

// newParquetFile makes a month's file, with columns in the reference collector's order.
func newParquetFile(path string, known []column) (*monthFile, error) {
	// #nosec G302 -- Grafana's user reads it
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("writing a sample pool: %w", err)
	}
	f := &monthFile{}
	var fields []parquet.Field
	for _, field := range parquet.Schema {
		if at := slices.IndexFunc(known, func(c column) bool { return c.name() == field.Name }); at >= 0 {
			f.columns, fields = append(f.columns, known[at]), append(fields, field)
		}
	}
	writer := parquet.NewWriter(file, fields)
	f.insert = func(_ context.Context, values ...any) error { return writer.Write(values) }
	f.close = func() error { return errors.Join(writer.Close(), file.Close()) }
	return f, nil
}
