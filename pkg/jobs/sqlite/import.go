package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/pool"
)

// Input is a file with job ads: JSON objects one after the other, as lines or indented, or arrays of them, as
// condor_history -json and adstash write them.
type Input struct {
	Name   string // for messages
	Reader io.Reader
}

// Imported says what became of the ads.
type Imported struct {
	Read       int // ads found in the inputs
	Stored     int // added to the job file
	Duplicates int // already there: same kind, GlobalJobId and RecordTime
	Other      int // left out: neither history nor epoch ads, or not of the kind asked for
	Bad        int // left out: not readable
	Problems   []string
}

// maxProblems bounds Imported.Problems; Bad counts on.
const maxProblems = 20

// Import adds the ads of the inputs to the job file output, which it makes if there is none. kind "auto" takes all
// ads, "history" and "epoch" only those of that kind; what an ad is, its content tells. All ads are stored or, on an
// error, none.
func Import(ctx context.Context, output, kind string, inputs ...Input) (Imported, error) {
	var report Imported
	only := jobs.Other
	switch kind {
	case "auto":
	case "history":
		only = jobs.History
	case "epoch":
		only = jobs.Epoch
	default:
		return report, pool.BadQuery("kind %q is not known: possible are auto, history and epoch", kind)
	}
	_, err := os.Stat(output)
	isNew := errors.Is(err, fs.ErrNotExist)
	err = importAll(ctx, output, only, inputs, &report)
	if err != nil && isNew {
		_ = os.Remove(output) // an unfinished file is of no use to anybody
	}
	return report, err
}

func importAll(ctx context.Context, output string, only jobs.Kind, inputs []Input, report *Imported) error {
	failed := func(err error) error {
		if ctx.Err() != nil {
			return fmt.Errorf("importing job ads: %w", ctx.Err())
		}
		return fileError(filepath.Base(output), err)
	}
	absolute, err := filepath.Abs(output)
	if err != nil {
		return failed(err)
	}
	db, err := sql.Open("sqlite", dsn(absolute, "rwc"))
	if err != nil {
		return failed(err)
	}
	defer db.Close()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return failed(err)
	}
	defer func() { _ = tx.Rollback() }() // does nothing after Commit
	for _, statement := range []string{
		"CREATE TABLE IF NOT EXISTS ads (kind TEXT, GlobalJobId TEXT, RecordTime INTEGER, ad TEXT)",
		"CREATE INDEX IF NOT EXISTS ads_GlobalJobId ON ads (GlobalJobId)",
		"CREATE INDEX IF NOT EXISTS ads_RecordTime ON ads (RecordTime)",
	} {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return failed(err)
		}
	}
	insert, err := tx.PrepareContext(ctx, `INSERT INTO ads SELECT ?1, ?2, ?3, ?4
		WHERE NOT EXISTS (SELECT 1 FROM ads WHERE GlobalJobId = ?2 AND kind = ?1 AND +RecordTime = ?3)`) // + keeps to the other index
	if err != nil {
		return failed(err)
	}
	defer insert.Close()

	for _, input := range inputs {
		bad := func(line int, problem string) {
			report.Bad++
			if len(report.Problems) < maxProblems {
				report.Problems = append(report.Problems, fmt.Sprintf("%s:%d: %s", input.Name, line, problem))
			}
		}
		err := objects(input.Reader, func(line int, object []byte) error {
			report.Read++
			ad, err := jobs.ParseAd(object)
			switch {
			case err != nil:
				bad(line, err.Error())
				return nil
			case ad.Kind == jobs.Other || only != jobs.Other && ad.Kind != only:
				report.Other++
				return nil
			case ad.RecordTime.IsZero():
				bad(line, "job ad: no RecordTime, and no other date to tell it from")
				return nil
			}
			var compact bytes.Buffer
			if err := json.Compact(&compact, object); err != nil {
				return fmt.Errorf("job ad: %w", err)
			}
			added, err := insert.ExecContext(ctx, ad.Kind.String(), ad.GlobalJobID, ad.RecordTime.Unix(), compact.String())
			if err != nil {
				return failed(err)
			}
			if n, err := added.RowsAffected(); err != nil {
				return failed(err)
			} else if n == 0 {
				report.Duplicates++
			} else {
				report.Stored++
			}
			return nil
		}, bad)
		if err != nil {
			if pool.FaultOf(err) == 0 && ctx.Err() == nil {
				err = pool.SourceError("reading %s: %w", input.Name, err)
			}
			return err
		}
	}
	if err := tx.Commit(); err != nil {
		return failed(err)
	}
	return nil
}
