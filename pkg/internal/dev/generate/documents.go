package main

import (
	"encoding/json"
	"fmt"

	"github.com/chtc/gpureports/pkg/fleet"
	"github.com/chtc/gpureports/pkg/internal/dev/documents"
	"github.com/chtc/gpureports/pkg/kinds"
	"github.com/chtc/gpureports/pkg/query"
)

// generated are the files that the descriptions of the kinds are written into, by their paths from the repository's
// root: the front end's schema, and the table of docs/queries.md. Given are their current contents.
func generated(read func(path string) ([]byte, error)) (map[string][]byte, error) {
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
		if page, err = documents.Between(page, mark, table); err != nil {
			return nil, fmt.Errorf("%s: %w", queries, err)
		}
	}
	return map[string][]byte{schema: append(document, '\n'), queries: page}, nil
}
