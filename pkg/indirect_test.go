package main

import (
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The picture in docs/architecture.md holds for indirect imports, too: from the folders, none of the others is reached
// through other packages. Folders below one that is named are meant as well.
var unreachable = []struct {
	why      string
	from, to []string
}{
	{"kinds, the timeline and frames know no format of snapshots and no store of job ads",
		slices.Concat(kindFolders, []string{"timeline", "frames", "query", "runs", "counts", "linked", "survival"}),
		[]string{"snapshots/sqlite", "snapshots/parquet", "snapshots/objects", "snapshots/months", "snapshots/registry",
			"jobs/sqlite", "jobs/elasticsearch"}},
	{"snapshots and the timeline know no job ads, no queries and no frames",
		[]string{"snapshots", "timeline", "queues"}, []string{"jobs", "runs", "query", "frames", "stores", "linked"}},
	{"job ads know no snapshots and no queries",
		[]string{"jobs"}, []string{"snapshots", "timeline", "runs", "query", "frames", "stores"}},
	{"runs know no queries and no frames", []string{"runs"}, []string{"query", "frames", "stores", "linked"}},
	{"data go one way: nothing below Grafana's side knows it",
		slices.Concat(kindFolders, []string{"snapshots", "timeline", "jobs", "runs", "frames", "kinds", "queues", "check",
			"collect", "convert"}),
		[]string{"plugin", "report", "internal/dev"}},
	{"the plugin starts no program and locks no file: the collector does",
		[]string{"plugin"}, []string{"collect", "convert", "cmd"}},
	{"the shipped binaries contain no development tools",
		[]string{".", "plugin", "report", "cmd"}, []string{"internal/dev"}},
}

// kindFolders hold a kind of query each, and know nothing of each other.
var kindFolders = []string{"allocation", "userhours", "backfill", "evictions", "utilization", "demand"}

func TestIndirectImports(t *testing.T) {
	direct := importsOfFolders(t)
	reached := map[string][]string{}
	for folder := range direct {
		reached[folder] = reachable(direct, folder)
	}
	check := func(why, from, to string) {
		require.DirExists(t, from, why)
		require.DirExists(t, to, why)
		for folder, all := range reached {
			if !within(folder, from) || strings.HasSuffix(folder, "test") {
				continue
			}
			for _, other := range all {
				if within(other, to) {
					t.Errorf("%s reaches %s: %s", folder, other, why)
				}
			}
		}
	}
	for _, u := range unreachable {
		for _, from := range u.from {
			for _, to := range u.to {
				check(u.why, from, to)
			}
		}
	}
	for _, a := range kindFolders {
		for _, b := range kindFolders {
			if a != b {
				check("kinds know nothing of each other", a, b)
			}
		}
	}
}

// within reports whether a folder is another one or lies below it.
func within(folder, other string) bool {
	return folder == other || strings.HasPrefix(folder, other+"/")
}

// reachable returns the folders that one imports, and those that they import in turn.
func reachable(direct map[string][]string, folder string) []string {
	seen := map[string]bool{}
	next := slices.Clone(direct[folder])
	for len(next) > 0 {
		one := next[len(next)-1]
		next = next[:len(next)-1]
		if !seen[one] {
			seen[one] = true
			next = append(next, direct[one]...)
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// importsOfFolders returns the product's folders that each folder imports, tests aside.
func importsOfFolders(t *testing.T) map[string][]string {
	t.Helper()
	direct := map[string][]string{}
	err := fs.WalkDir(os.DirFS("."), ".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		folder := filepath.ToSlash(filepath.Dir(path))
		for _, spec := range source.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if own, ok := strings.CutPrefix(name, module); ok {
				direct[folder] = append(direct[folder], own)
			}
		}
		return nil
	})
	require.NoError(t, err)
	require.Greater(t, len(direct), 40)
	return direct
}
