package facts

import "encoding/json"

// Template is the index template of an alias: mapping, settings and the alias itself. Written documents become visible
// when the publisher refreshes the index, and not periodically, so that readers never see half a day.
func Template(alias string, shards int) ([]byte, error) {
	return json.Marshal(map[string]any{
		"index_patterns": []string{alias + "-*"},
		"priority":       200,
		"version":        Version,
		"template": map[string]any{
			"aliases": map[string]any{alias: map[string]any{}},
			"settings": map[string]any{"index": map[string]any{
				"codec": "best_compression", "refresh_interval": "-1", "number_of_shards": shards,
				"sort": map[string]any{"field": []string{"pool", "hour"}, "order": []string{"asc", "asc"}},
			}},
			"mappings": Mapping(Fields()),
		},
	})
}

// Mapping is the mapping of an index with these fields. Others are refused.
func Mapping(fields map[string]any) map[string]any {
	return map[string]any{"dynamic": "strict", "properties": fields}
}

// Fields are the types of all fields. Facts are found by pool, kind and time; the other fields are only told apart and
// added up, for which no index is needed: it would take a third of the time of writing them.
func Fields() map[string]any {
	of := func(kind string) map[string]any { return map[string]any{"type": kind, "index": false} }
	found, date := map[string]any{"type": "keyword"}, map[string]any{"type": "date", "format": "epoch_millis"}
	fields := map[string]any{
		"pool": found, "kind": found, "hour": date, "began": date, "runBegan": date, "complete": of("boolean"),
		"since": date, "completeThrough": date, "through": date, "publishedAt": date,
	}
	for _, field := range []string{"written", "filling", "seen"} { // which are read as a whole
		fields[field] = map[string]any{"type": "object", "enabled": false}
	}
	for _, field := range []string{"category", "slots", "device", "memory", "tier", "ownership", "project", "user",
		"cause", "evidence", "schedd", "gpus", "gpuMemory", "zone"} {
		fields[field] = of("keyword")
	}
	for _, field := range append(ClassFields[:], "coveredHours", "held", "measured", "busy", "idle", "backfillHours",
		"lostFirst", "lostLast", "lost", "evictedFirst", "evictedLast", "evicted", "waited", "waitingJobHours",
		"waitingGpuHours", "polledHours") {
		fields[field] = of("double")
	}
	for _, field := range []string{"slices", "begun", "carried", "backfillBegun", "backfillCarried", "unseenBegun",
		"unseenCarried", "yielded", "completed", "removed", "onHold", "outOfSight", "ambiguous", "evictions",
		"evictedGpus", "evictedSaved",
		"linkedBegun", "linkedCarried", "countedBegun", "countedCarried", "withoutAds", "snapshots", "poolAvailable",
		"poolUsed", "poolTaken", "poolOther", "waitsBegun", "waitsCarried", "waitsStarted", "waitsLeft", "version",
		"sliceMinutes"} {
		fields[field] = of("long")
	}
	return fields
}
