package samplepool

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	_ "modernc.org/sqlite" // driver

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
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
func (p *Pool) WriteSnapshots(ctx context.Context, dir string) error {
	if err := p.writeLists(dir); err != nil {
		return err
	}
	month := func(shot Snapshot) string { return shot.Month }
	return p.writeFiles(ctx, month, func(month string, newer bool) (snapshotFile, error) {
		if p.options.Format == "parquet" {
			return asFile(newParquetFile(dir, snapshots.MonthFile(month, "parquet"), newer))
		}
		return asFile(newSQLiteFile(ctx, dir, month, newer))
	})
}

// snapshotFile is a file that grows by snapshots.
type snapshotFile interface {
	add(ctx context.Context, shot Snapshot) error
	close() error
}

// asFile makes what a constructor returns a snapshotFile.
func asFile[F snapshotFile](file F, err error) (snapshotFile, error) {
	if err != nil {
		return nil, err
	}
	return file, nil
}

// writeFiles writes the snapshots, those of each period into a file of its own. newer: with the columns that older
// collectors did not have.
func (p *Pool) writeFiles(ctx context.Context, period func(Snapshot) string,
	create func(period string, newer bool) (snapshotFile, error)) (err error) {
	var file snapshotFile
	now := ""
	defer func() {
		if file != nil {
			err = errors.Join(err, file.close())
		}
	}()
	for shot, err := range p.Snapshots(ctx) {
		if err != nil {
			return err
		}
		if of := period(shot); file == nil || of != now {
			if file != nil {
				if err := file.close(); err != nil {
					return err
				}
			}
			now, file = of, nil
			newer := shot.Month >= p.options.NewColumns.In(p.zone).Format("2006-01")
			if file, err = create(of, newer); err != nil {
				return err
			}
		}
		if err := file.add(ctx, shot); err != nil {
			return err
		}
	}
	return nil
}

// writeLists writes the files of CHTC's machines and of excluded hosts.
func (p *Pool) writeLists(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("writing a sample pool: %w", err)
	}
	defer root.Close()
	err = writeFile(root, "chtc_owned", func(w *bufio.Writer) error {
		fmt.Fprintln(w, "# machines that CHTC owns")
		for _, m := range p.machines {
			if m.Ownership == pool.CHTCOwned {
				fmt.Fprintln(w, m.Name)
			}
		}
		_, err := fmt.Fprintln(w, "retiredgpu4000"+domain)
		return err
	})
	if err != nil {
		return err
	}
	return writeFile(root, "masked_hosts.yaml", func(w *bufio.Writer) error {
		list := "excluded_hosts:\n"
		for _, m := range p.machines {
			if m.Excluded {
				list += "  " + strings.TrimSuffix(m.Name, domain) + ": Prioritized by a hard-coded start expression\n"
			}
		}
		if !strings.HasSuffix(list, "expression\n") {
			list = "excluded_hosts: {}\n"
		}
		_, err := fmt.Fprint(w, list)
		return err
	})
}

const rowsAtOnce = 64

// columnNames are the columns of a row in the order of Row.appendValues.
func columnNames(newer bool) []string {
	definitions := columnDefinitions(newer)
	names := make([]string, len(definitions))
	for i, d := range definitions {
		names[i] = strings.Trim(strings.Fields(d)[0], `"`)
	}
	return names
}

// columnDefinitions are the columns of gpu_state.
func columnDefinitions(newer bool) []string {
	columns := []string{
		`"Name" TEXT`, `"AssignedGPUs" TEXT`, `"AvailableGPUs" TEXT`, `"State" TEXT`, `"GPUs_DeviceName" TEXT`,
		`"GPUs_GlobalMemoryMb" BIGINT`,
		`"PrioritizedProjects" TEXT`, `"GPUsAverageUsage" FLOAT`, `"Machine" TEXT`, `"RemoteOwner" TEXT`,
		`"GlobalJobId" TEXT`, `timestamp DATETIME`,
	}
	if newer {
		columns = append(append(append([]string{}, columns[:9]...), `"PreventJobsReason" TEXT`),
			append(columns[9:], `"Disk" INTEGER`, `"Cpus" INTEGER`, `"Memory" INTEGER`, `"SlotType" TEXT`)...)
	}
	return columns
}

// sqliteFile is one SQLite file that grows by snapshots.
type sqliteFile struct {
	newer   bool
	db      *sql.DB
	tx      *sql.Tx
	many    *sql.Stmt // inserts rowsAtOnce rows
	one     *sql.Stmt
	values  []any
	pending int // snapshots in tx
}

func newSQLiteFile(ctx context.Context, dir, month string, newer bool) (*sqliteFile, error) {
	columns := columnDefinitions(newer)
	name := snapshots.MonthFile(month, "db")
	path := filepath.Join(dir, name)
	if _, err := os.Lstat(path); err == nil {
		return nil, fmt.Errorf("writing a sample pool: %s exists already", name)
	}
	fail := func(err error) (*sqliteFile, error) {
		return nil, fmt.Errorf("writing a sample pool's %s: %w", name, err)
	}
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(OFF)&_pragma=synchronous(OFF)"+
		"&_pragma=locking_mode(EXCLUSIVE)&_pragma=cache_size(-16000)")
	if err != nil {
		return fail(err)
	}
	db.SetMaxOpenConns(1)
	f := &sqliteFile{newer: newer, db: db}
	if _, err := db.ExecContext(ctx, "CREATE TABLE gpu_state (\n\t"+strings.Join(columns, ", \n\t")+"\n)"); err != nil {
		return fail(errors.Join(err, db.Close()))
	}
	row := "(" + strings.Repeat("?,", len(columns)-1) + "?)"
	if f.one, err = db.PrepareContext(ctx, "INSERT INTO gpu_state VALUES "+row); err != nil {
		return fail(errors.Join(err, db.Close()))
	}
	if f.many, err = db.PrepareContext(ctx, "INSERT INTO gpu_state VALUES "+strings.Repeat(row+",",
		rowsAtOnce-1)+row); err != nil {
		return fail(errors.Join(err, db.Close()))
	}
	return f, nil
}

func (f *sqliteFile) add(ctx context.Context, shot Snapshot) error {
	if err := f.insert(ctx, shot); err != nil {
		return fmt.Errorf("writing a sample pool's snapshot of %s: %w", shot.Timestamp, err)
	}
	return nil
}

func (f *sqliteFile) insert(ctx context.Context, shot Snapshot) (err error) {
	if f.tx == nil {
		if f.tx, err = f.db.Begin(); err != nil {
			return err
		}
	}
	many, one := f.tx.Stmt(f.many), f.tx.Stmt(f.one)
	for rows := shot.Rows; len(rows) > 0; {
		statement, n := one, 1
		if len(rows) >= rowsAtOnce {
			statement, n = many, rowsAtOnce
		}
		f.values = f.values[:0]
		for i := range rows[:n] {
			f.values = rows[i].appendValues(f.values, shot.Timestamp, f.newer)
		}
		if _, err := statement.ExecContext(ctx, f.values...); err != nil {
			return err
		}
		rows = rows[n:]
	}
	if f.pending++; f.pending == 100 {
		f.pending = 0
		err = f.tx.Commit()
		f.tx = nil
	}
	return err
}

// appendValues appends a row's columns in the order of the table.
func (r *Row) appendValues(values []any, timestamp string, newer bool) []any {
	text := func(s string) any {
		if s == "" {
			return nil
		}
		return s
	}
	var memory, usage, projects any = nil, nil, r.PrioritizedProjects
	if r.MemoryMB != 0 {
		memory = int64(r.MemoryMB)
	}
	if r.UsageReported {
		usage = r.AverageUsage
	}
	if r.ProjectsNull {
		projects = nil
	}
	values = append(values, text(r.Name), text(r.AssignedGPUs), text(r.AvailableGPUs), text(r.State), text(r.DeviceName),
		memory, projects, usage, text(r.Machine))
	if newer {
		values = append(values, text(r.PreventJobsReason))
	}
	values = append(values, text(r.RemoteOwner), text(r.GlobalJobID), timestamp)
	if newer {
		values = append(values, int64(1000000), int64(r.Cpus), int64(r.Memory), text(r.SlotType))
	}
	return values
}

func (f *sqliteFile) close() error {
	var committed error
	if f.tx != nil {
		committed = f.tx.Commit()
	}
	return errors.Join(committed, f.one.Close(), f.many.Close(), f.db.Close())
}
