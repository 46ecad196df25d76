package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/chtc/gpureports/pkg/internal/dev/snapshotstest"
	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/snapshots/months"
)

// counter counts the rows of a scan.
type counter struct{ rows int }

func (c *counter) Run(int64, months.Local, string) (bool, error) { return true, nil }
func (c *counter) Row(snapshots.Row, float64) error              { c.rows++; return nil }

// A file is reopened while other goroutines read it: each reading is complete or fails as stale. (It is meant for the
// race detector.)
func TestReopenedWhileRead(t *testing.T) {
	dir := t.TempDir()
	snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{month: hourly(300)})
	f := opened(t, dir, month)
	path := filepath.Join(dir, month)
	old := time.Now().Add(-100 * time.Hour)
	var wait sync.WaitGroup
	for i := range 4 {
		wait.Go(func() {
			for range 50 {
				if i == 0 { // as immutable, and not, in turns
					old = old.Add(-time.Hour)
					if err := os.Chtimes(path, old, old); err != nil {
						t.Error(err)
					}
				}
				c, err := f.Look(t.Context(), i == 1)
				if err != nil {
					t.Error(err)
					return
				}
				info := c.Info()
				read := &counter{}
				_, errSeek := c.Seek(t.Context(), info.First, info.Last)
				_, errPrint := c.Fingerprint(t.Context(), info.Rows)
				err = c.Scan(t.Context(), info.Rows, read)
				for _, err := range []error{err, errSeek, errPrint} {
					if err != nil && !errors.Is(err, snapshots.ErrStale) {
						t.Error(err)
					}
				}
				if err == nil && read.rows != 300 {
					t.Errorf("%d rows", read.rows)
				}
			}
		})
	}
	wait.Wait()
}
