package query

import (
	"encoding/json"

	"github.com/chtc/gpureports/pkg/pool"
)

// Migration is the change that a version of the query model made to stored queries. The front end reads the same table
// (src/query/migration.ts): Grafana's editor and its server bring a query to the current version alike.
type Migration struct {
	Renamed  []Renamed `json:"renamed"`
	Defaults []Default `json:"defaults"`
}

// Renamed is a word of the query model that has another name now: a text, or an entry of a list.
type Renamed struct {
	Kind  string `json:"kind"`  // of queries of this kind, as the older version named it
	Field string `json:"field"` // queryType, view, groupBy, metrics, bucket or duration
	From  string `json:"from"`
	To    string `json:"to"`
}

// Default is the meaning of a field that was missing in a kind's queries before the default changed.
type Default struct {
	Kind  string `json:"kind"`
	Field string `json:"field"`
	Value any    `json:"value"`
}

// Migrations lead from version n (the index plus 1) to version n + 1. The last leads to Version.
var Migrations = []Migration{}

// Migrate brings a stored query to the current version, and keeps fields that the model does not know. A query without
// a version was written by hand for the first one. One from a newer plugin is left unchanged: Parse refuses it. Errors
// are pool.BadQuery.
func Migrate(raw json.RawMessage) (json.RawMessage, error) {
	var stored struct{ Version int }
	if err := json.Unmarshal(raw, &stored); err != nil {
		return nil, pool.BadQuery("the query cannot be read: %w", err)
	}
	from := max(stored.Version, 1)
	if from > len(Migrations) {
		return raw, nil
	}
	var q map[string]any
	if err := json.Unmarshal(raw, &q); err != nil {
		return nil, pool.BadQuery("the query cannot be read: %w", err)
	}
	for _, m := range Migrations[from-1:] {
		m.apply(q)
	}
	q["version"] = len(Migrations) + 1
	return json.Marshal(q)
}

func (m *Migration) apply(q map[string]any) {
	kind := q["queryType"]
	for _, d := range m.Defaults {
		if _, ok := q[d.Field]; !ok && d.Kind == kind {
			q[d.Field] = d.Value
		}
	}
	for _, r := range m.Renamed {
		if r.Kind != kind {
			continue
		}
		switch value := q[r.Field].(type) {
		case string:
			if value == r.From {
				q[r.Field] = r.To
			}
		case []any:
			for i := range value {
				if value[i] == r.From {
					value[i] = r.To
				}
			}
		}
	}
}
