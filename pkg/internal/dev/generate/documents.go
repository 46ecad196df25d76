package main

import (
	"encoding/json"
	"fmt"

	"github.com/chtc/gpureports/pkg/fleet"
	"github.com/chtc/gpureports/pkg/internal/dev/documents"
	"github.com/chtc/gpureports/pkg/kinds"
)

// ofKinds are the files that the descriptions of the kinds are written into: the front end's schema, the tables of
// docs/queries.md, and the page for those who ask by machine.
func ofKinds(read reader) (map[string][]byte, error) {
	const schema, queries = "src/query/schema.json", "docs/queries.md"
	document, err := json.MarshalIndent(schemaOf(kinds.Catalog, fleet.Catalog, fleet.Dimensions), "", "  ")
	if err != nil {
		return nil, fmt.Errorf("writing the schema: %w", err)
	}
	page, err := read(queries)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", queries, err)
	}
	tables := map[string]string{"kinds": tableOf(kinds.Catalog), "kinds of many pools": tableOf(fleet.Catalog)}
	for mark, table := range tables {
		if page, err = documents.Between(page, mark, table); err != nil {
			return nil, fmt.Errorf("%s: %w", queries, err)
		}
	}
	reference, err := read(skill)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", skill, err)
	}
	if reference, err = documents.Between(reference, "queries", referenceOf(kinds.Catalog)); err != nil {
		return nil, fmt.Errorf("%s: %w", skill, err)
	}
	return map[string][]byte{schema: append(document, '\n'), queries: page, skill: reference}, nil
}
