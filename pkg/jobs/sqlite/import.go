package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"github.com/chtc/gpureports/pkg/files"
	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/pool"
)

// Input is a file with job ads: JSON objects one after another, as lines or indented, or arrays of them, as
// condor_history -json, -jsonl and adstash write them; or ads as condor_history -long prints them.
type Input struct {
	Name   string // for messages
	Reader io.Reader
}

// Imported counts the ads by their treatment.
type Imported struct {
	Read       int // ads found in the inputs
	Stored     int // added to the job file
	Duplicates int // already there, with the same attributes
	Other      int // left out: neither history nor epoch ads, or not of the wanted kind
	Bad        int // left out: not readable
	Problems   []string
	Note       string // says what was set aside; "" if nothing
}

// maxProblems bounds Imported.Problems; Bad counts on.
const maxProblems = 20

// Import adds the ads of the inputs to the job file output, which it makes if there is none. kind "auto" takes all ads,
// "history" and "epoch" only those of that kind; an ad's kind follows from its content. All ads are stored or, on an
// error, none.
func Import(ctx context.Context, output, kind string, inputs ...Input) (Imported, error) {
	var report Imported
	only, known := map[string]jobs.Kind{"auto": jobs.Other, "history": jobs.History, "epoch": jobs.Epoch}[kind]
	if !known {
		return report, pool.BadQuery("unknown kind %q; valid values: auto, history, epoch", kind)
	}
	into, note := importer{only: only, output: output, report: &report}, ""
	_, err := os.Stat(output)
	if errors.Is(err, fs.ErrNotExist) {
		note, err = files.Create(ctx, output, func(out *os.File) error { return into.readAll(ctx, out.Name(), inputs) })
	} else {
		err = into.readAll(ctx, output, inputs)
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		err = pool.SourceError("job file %s: another import made it meanwhile: import again, and the ads are added to it",
			filepath.Base(output))
	case err != nil && pool.FaultOf(err) == 0:
		err = fileError(ctx, "importing", output, err)
	default:
		report.Note = note
	}
	return report, err
}

// importer adds the ads of inputs to a job file.
type importer struct {
	only   jobs.Kind // Other: all
	output string    // the job file, in messages
	insert *sql.Stmt
	report *Imported
}

// readAll adds the ads of all inputs to the job file of a path, in one transaction.
func (i *importer) readAll(ctx context.Context, path string, inputs []Input) error {
	db, err := sql.Open("sqlite", dsn(path, "rwc"))
	if err != nil {
		return err
	}
	defer db.Close()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after Commit
	if i.insert, err = prepare(ctx, tx); err != nil {
		return err
	}
	defer i.insert.Close()
	for _, input := range inputs {
		if err := i.read(ctx, input); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// prepare creates the table if there is none and returns the statement that adds an ad that is not there yet.
func prepare(ctx context.Context, tx *sql.Tx) (*sql.Stmt, error) {
	_, err := tx.ExecContext(ctx, `
		CREATE TABLE IF NOT EXISTS ads (kind TEXT, GlobalJobId TEXT, RecordTime INTEGER, ad TEXT);
		CREATE INDEX IF NOT EXISTS ads_GlobalJobId ON ads (GlobalJobId);
		CREATE INDEX IF NOT EXISTS ads_RecordTime ON ads (RecordTime)`)
	if err != nil {
		return nil, err
	}
	// + keeps to the other index
	return tx.PrepareContext(ctx, `INSERT INTO ads (kind, GlobalJobId, RecordTime, ad) SELECT ?1, ?2, ?3, ?4
		WHERE NOT EXISTS (SELECT 1 FROM ads WHERE GlobalJobId = ?2 AND kind = ?1 AND +RecordTime = ?3 AND ad = ?4)`)
}

// read adds the ads of one input.
func (i *importer) read(ctx context.Context, input Input) error {
	bad := func(line int, problem string) {
		i.report.Bad++
		if len(i.report.Problems) < maxProblems {
			i.report.Problems = append(i.report.Problems, fmt.Sprintf("%s:%d: %s", input.Name, line, problem))
		}
	}
	err := objects(input.Reader, func(line int, object []byte) error {
		i.report.Read++
		ad, err := jobs.ParseAd(object)
		if err != nil {
			object = finite(object)
			ad, err = jobs.ParseAd(object)
		}
		switch {
		case err != nil:
			bad(line, err.Error())
		case ad.Kind == jobs.Other || i.only != jobs.Other && ad.Kind != i.only:
			i.report.Other++
		case ad.RecordTime == 0:
			bad(line, "job ad: no RecordTime, and no other date to take it from")
		default:
			return i.store(ctx, &ad, object)
		}
		return nil
	}, bad)
	if err != nil && pool.FaultOf(err) == 0 && ctx.Err() == nil {
		err = pool.SourceError("reading %s: %w", input.Name, err)
	}
	return err
}

var notFinite = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|-?(?:NaN|Infinity)\b`)

// finite returns the ad without the numbers that JSON does not have and Python writes, such as adstash.
func finite(object []byte) []byte {
	return notFinite.ReplaceAllFunc(object, func(token []byte) []byte {
		if token[0] == '"' {
			return token
		}
		return []byte("null")
	})
}

// store adds the attributes of an ad that are read, if they are not there yet.
func (i *importer) store(ctx context.Context, ad *jobs.Ad, object []byte) error {
	compact, err := jobs.Compact(object)
	if err != nil {
		return err
	}
	added, err := i.insert.ExecContext(ctx, ad.Kind.String(), ad.GlobalJobID, ad.RecordTime, string(compact))
	if err != nil {
		return fileError(ctx, "importing", i.output, err)
	}
	if n, _ := added.RowsAffected(); n == 0 { // SQLite always knows
		i.report.Duplicates++
	} else {
		i.report.Stored++
	}
	return nil
}
