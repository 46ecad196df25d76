package facts

import "encoding/json"

// Template is the index template of an alias: mapping, settings and the alias itself. What is written becomes visible
// when the publisher asks for it, so that readers never see half a day: there is no refresh by time.
func Template(alias string) ([]byte, error) {
	return json.Marshal(map[string]any{
		"index_patterns": []string{alias + "-*"},
		"priority":       200,
		"version":        Version,
		"template": map[string]any{
			"aliases": map[string]any{alias: map[string]any{}},
			"settings": map[string]any{"index": map[string]any{
				"codec": "best_compression", "refresh_interval": "-1", "number_of_shards": 1,
				"sort": map[string]any{"field": []string{"pool", "hour"}, "order": []string{"asc", "asc"}},
			}},
			"mappings": mapping(),
		},
	})
}

// Mapping is the mapping of an index. Indices of earlier versions are brought to it: fields are only ever added.
func Mapping() ([]byte, error) { return json.Marshal(mapping()) }

func mapping() map[string]any {
	keyword, number := map[string]any{"type": "keyword"}, map[string]any{"type": "double"}
	whole, date := map[string]any{"type": "long"}, map[string]any{"type": "date", "format": "epoch_millis"}
	properties := map[string]any{
		"pool": keyword, "kind": keyword, "hour": date, "complete": map[string]any{"type": "boolean"},
		"slices": whole, "coveredHours": number,
		"category": keyword, "slots": keyword, "device": keyword, "memory": keyword, "tier": keyword,
		"ownership": keyword, "project": keyword, "user": keyword, "cause": keyword, "evidence": keyword, "began": date,
		"schedd": keyword, "gpus": keyword, "gpuMemory": keyword,
		"version": whole, "zone": keyword, "sliceMinutes": whole, "since": date, "completeThrough": date,
		"through": date, "publishedAt": date,
	}
	for _, field := range append(ClassFields[:], "held", "measured", "busy", "idle", "backfillHours",
		"lostFirst", "lostLast", "lost", "waited", "waitingJobHours", "waitingGpuHours", "polledHours") {
		properties[field] = number
	}
	for _, field := range []string{"begun", "carried", "backfillBegun", "backfillCarried", "unseenBegun", "unseenCarried",
		"completed", "removed", "onHold", "outOfSight", "ambiguous", "evictions", "evictedGpus", "linkedBegun",
		"linkedCarried", "countedBegun", "countedCarried", "withoutAds", "snapshots", "poolAvailable", "poolUsed",
		"poolTaken", "poolOther", "waitsBegun", "waitsCarried", "waitsStarted", "waitsLeft"} {
		properties[field] = whole
	}
	return map[string]any{"dynamic": "strict", "properties": properties}
}
