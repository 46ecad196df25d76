package samplepool

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

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
	return p.writeFiles(ctx, month, func(month string, newer bool) (*rowFile, error) {
		if p.options.Format == "parquet" {
			return newParquetFile(dir, snapshots.MonthFile(month, "parquet"), newer)
		}
		return newSQLiteFile(ctx, dir, snapshots.MonthFile(month, "db"), newer)
	})
}

// rowFile is a file of snapshots that is being written.
type rowFile struct {
	columns []column
	insert  func(ctx context.Context, values ...any) error
	close   func() error
}

func (f *rowFile) add(ctx context.Context, shot Snapshot) error {
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

// writeFiles writes the snapshots, those of each period into a file of its own. newer: with the columns that older
// collectors did not have.
func (p *Pool) writeFiles(ctx context.Context, period func(Snapshot) string,
	create func(period string, newer bool) (*rowFile, error)) (err error) {
	var file *rowFile
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
			newer := shot.Month >= p.options.NewColumns.In(p.zone).Format("2006-01")
			if file, err = create(of, newer); err != nil {
				return err
			}
			now = of
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

// fileColumns are the columns of a file.
func fileColumns(newer bool) []column {
	return slices.DeleteFunc(slices.Clone(columns), func(c column) bool { return c.newer && !newer })
}

func newSQLiteFile(ctx context.Context, dir, name string, newer bool) (*rowFile, error) {
	f := &rowFile{columns: fileColumns(newer)}
	var definitions []string
	for _, c := range f.columns {
		definitions = append(definitions, c.definition)
	}
	t, err := newTable(ctx, dir, name, "CREATE TABLE gpu_state (\n\t"+strings.Join(definitions, ", \n\t")+"\n)")
	if err != nil {
		return nil, err
	}
	f.insert, f.close = t.add, func() error { return t.close() }
	return f, nil
}
