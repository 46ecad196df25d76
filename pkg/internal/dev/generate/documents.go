package main

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/chtc/gpureports/pkg/fleet"
	"github.com/chtc/gpureports/pkg/kinds"
	"github.com/chtc/gpureports/pkg/query"
)

// documents are the files that the descriptions of the kinds are written into, by their paths from the repository's
// root: the front end's schema, and the table of docs/queries.md. Given are their current contents.
func documents(read func(path string) ([]byte, error)) (map[string][]byte, error) {
	const schema, queries = "src/query/schema.json", "docs/queries.md"
	ofFleet := query.Fleet{Catalog: fleet.Catalog, Dimensions: fleet.Dimensions}
	document, err := json.MarshalIndent(kinds.Catalog.Schema(ofFleet), "", "  ")
	if err != nil {
		return nil, fmt.Errorf("writing the schema: %w", err)
	}
	page, err := read(queries)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", queries, err)
	}
	tables := map[string]string{"kinds": kinds.Catalog.Table(), "kinds of many pools": fleet.Catalog.Table()}
	for mark, table := range tables {
		if page, err = between(page, mark, table); err != nil {
			return nil, fmt.Errorf("%s: %w", queries, err)
		}
	}
	return map[string][]byte{schema: append(document, '\n'), queries: page}, nil
}

// between replaces the text between two marks of a page.
func between(page []byte, mark, text string) ([]byte, error) {
	begin, end := []byte("<!-- "+mark+" -->\n"), []byte("<!-- end of "+mark+" -->\n")
	from, to := bytes.Index(page, begin), bytes.Index(page, end)
	if from < 0 || to < from {
		return nil, fmt.Errorf("the marks %q and %q are missing", begin, end)
	}
	return bytes.Join([][]byte{page[:from+len(begin)], []byte(text), page[to:]}, nil), nil
}
