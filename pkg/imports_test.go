package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	module = "github.com/chtc/gpureports/pkg/"
	sdk    = "github.com/grafana/grafana-plugin-sdk-go/"
)

// layers lists the product's folders of pkg/ and the folders of pkg/ that each may import: data goes one way, from the
// files to Grafana. The tools and test helpers of internal/dev may import anything, and no product folder imports them.
var layers = map[string][]string{
	"pool":             {},
	"parallel":         {},
	"memory":           {},
	"remote":           {"parallel"},
	"files":            {"parallel"},
	"bucket":           {"parallel", "pool", "remote"},
	"localtime":        {"pool"},
	"sqlitefile":       {"files", "pool"},
	"snapshots":        {"files", "pool"},
	"snapshots/months": {"parallel", "pool", "localtime", "snapshots"},
	"snapshots/sqlite": {"parallel", "pool", "localtime", "sqlitefile", "snapshots", "snapshots/months"},
	"snapshots/objects": {"files", "memory", "parallel", "pool", "localtime", "bucket", "segcache", "snapshots",
		"snapshots/months", "snapshots/parquet"},
	"snapshots/registry": {"localtime", "snapshots", "snapshots/months", "snapshots/parquet", "snapshots/sqlite"},
	"snapshots/parquet":  {"files", "pool", "localtime", "snapshots", "snapshots/months"},
	"segcache":           {"bucket", "files", "pool", "remote"},
	"timeline":           {"bucket", "parallel", "memory", "pool", "localtime", "segcache", "snapshots"},
	"queues":             {"files", "parallel", "pool", "sqlitefile", "snapshots", "timeline"},
	"jobs":               {"parallel", "memory", "pool", "segcache"},
	"jobs/sqlite":        {"files", "parallel", "pool", "sqlitefile", "jobs"},
	"elastic":            {"parallel", "pool", "remote"},
	"jobs/elasticsearch": {"parallel", "pool", "jobs", "elastic"},
	"runlog":             {"pool", "sqlitefile", "snapshots"},
	"collect": {"files", "parallel", "pool", "localtime", "bucket", "sqlitefile", "snapshots", "snapshots/objects",
		"snapshots/parquet", "runlog"},
	"convert":   {"files", "localtime", "pool", "sqlitefile", "snapshots/parquet"},
	"survival":  {"pool"},
	"query":     {"pool", "localtime"},
	"frames":    {"pool", "query", "timeline", "survival"},
	"runs":      {"parallel", "memory", "pool", "timeline", "jobs"},
	"aggregate": {"pool", "timeline", "query", "frames", "runs"},
	"utilization": {"parallel", "pool", "localtime", "timeline", "query", "frames", "jobs", "runs", "survival",
		"aggregate", "stores", "linked"},
	"counts": {"parallel", "pool", "localtime", "timeline", "query", "queues", "frames", "aggregate", "stores"},
	"stores": {"memory", "pool", "timeline", "jobs", "runs", "queues"},
	"allocation": {"parallel", "pool", "localtime", "timeline", "query", "frames", "aggregate", "counts", "stores",
		"linked"},
	"userhours": {"pool", "localtime", "timeline", "query", "queues", "frames", "aggregate", "counts", "stores",
		"linked"},
	"backfill": {"parallel", "pool", "localtime", "timeline", "query", "frames", "jobs", "runs",
		"survival", "aggregate", "stores", "linked"},
	"evictions": {"parallel", "pool", "localtime", "timeline", "query", "frames", "jobs", "runs", "survival", "aggregate",
		"stores", "linked"},
	"demand": {"parallel", "pool", "localtime", "timeline", "query", "frames", "jobs", "runs",
		"queues", "survival", "aggregate", "counts", "stores", "linked"},
	"linked": {"pool", "timeline", "query", "queues", "frames", "jobs", "runs", "aggregate", "stores"},
	"fleet/facts": {"pool", "localtime", "query", "aggregate", "counts", "stores", "utilization",
		"evictions", "backfill", "demand", "linked", "queues", "runs"},
	"fleet/publish": {"remote", "pool", "query", "elastic", "fleet/facts", "stores", "timeline"},
	"fleet": {"pool", "localtime", "query", "frames", "aggregate", "counts", "elastic", "fleet/facts", "allocation",
		"userhours", "utilization", "evictions", "backfill", "demand", "runs"},
	"kinds": {"pool", "query", "frames", "counts", "stores", "linked", "allocation", "userhours", "backfill",
		"evictions", "demand", "utilization", "fleet"},
	"check": {"pool", "localtime", "sqlitefile", "snapshots", "timeline", "jobs", "runlog", "runs", "linked",
		"stores"},
	"plugin": {"parallel", "bucket", "segcache", "snapshots/objects", "check", "pool", "localtime", "snapshots",
		"snapshots/registry", "timeline", "aggregate", "counts",
		"queues", "jobs", "jobs/sqlite", "jobs/elasticsearch", "query", "frames", "stores", "kinds",
		"elastic", "fleet", "fleet/facts", "fleet/publish"},
	"report":         nil, // a client of the plugin: anything but the command line
	"cmd/cli":        {"parallel", "plugin", "pool", "report"},
	"cmd/gpureports": nil,
	"":               {"plugin"},
}

// computing folders have no clock and no I/O: the same input gives the same answer. (What answers measures how long it
// took. localtime reads the machine's time zone database, once.)
var computing = []string{"pool", "survival", "query", "frames", "runs", "aggregate", "counts",
	"allocation", "userhours", "backfill", "evictions", "utilization"}

var inputOutput = []string{"os", "io/fs", "net", "net/http", "database/sql", "os/exec", "syscall"}

// withSDK are the folders that know Grafana; those of `frames only` know its data frames and nothing else of it.
var withSDK = []string{"", "plugin", "report", "cmd/cli", "cmd/gpureports"}
var framesOnly = []string{"frames", "aggregate", "counts", "linked", "kinds", "allocation",
	"userhours", "backfill", "evictions", "demand", "utilization", "fleet"}

func TestFoldersAndImports(t *testing.T) {
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		folder := filepath.ToSlash(filepath.Dir(path))
		if folder == "." {
			folder = ""
		}
		source, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		if strings.HasPrefix(folder, "internal/dev/") {
			return nil
		}
		allowed, known := layers[folder]
		if !known {
			t.Errorf("%s: folder %q is not in the design", path, folder)
			return nil
		}
		for _, spec := range source.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			require.NoError(t, err)
			if own, ok := strings.CutPrefix(name, module); ok && allowed != nil && !slices.Contains(allowed, own) {
				t.Errorf("%s imports %s: %q may import %v", path, own, folder, allowed)
			}
			if rest, ok := strings.CutPrefix(name, sdk); ok && !slices.Contains(withSDK, folder) &&
				(rest != "data" || !slices.Contains(framesOnly, folder)) {
				t.Errorf("%s imports %s: Grafana begins at frames", path, name)
			}
			if slices.Contains(computing, folder) && slices.Contains(inputOutput, name) {
				t.Errorf("%s imports %s: computations have no I/O", path, name)
			}
		}
		if folder != "parallel" {
			ast.Inspect(source, func(n ast.Node) bool {
				if _, ok := n.(*ast.GoStmt); ok {
					t.Errorf("%s starts a goroutine: a panic in it would end the process; pkg/parallel does it", path)
				}
				return true
			})
			for _, spec := range source.Imports {
				if spec.Path.Value == `"golang.org/x/sync/errgroup"` {
					t.Errorf("%s imports errgroup, which does not recover from panics: use parallel.Group", path)
				}
			}
		}
		if slices.Contains(computing, folder) && !slices.Contains([]string{"answer.go", "load.go"}, filepath.Base(path)) {
			ast.Inspect(source, func(n ast.Node) bool {
				if call, ok := n.(*ast.SelectorExpr); ok {
					if x, ok := call.X.(*ast.Ident); ok && x.Name == "time" &&
						slices.Contains([]string{"Now", "Since", "Until", "Sleep", "After", "NewTimer", "NewTicker"}, call.Sel.Name) {
						t.Errorf("%s uses time.%s: computations have no clock", path, call.Sel.Name)
					}
				}
				return true
			})
		}
		return nil
	})
	require.NoError(t, err)
}

// The folders that the test knows are there: a list that outlives its folders checks nothing.
func TestFoldersExist(t *testing.T) {
	for folder := range layers {
		entries, err := os.ReadDir(filepath.Join(".", folder))
		require.NoError(t, err, "folder %q of the design", folder)
		require.NotEmpty(t, entries)
	}
}
