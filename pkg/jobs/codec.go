package jobs

import (
	"bytes"
	"encoding/gob"
	"time"

	"github.com/chtc/gpureports/pkg/segcache"
)

// storedEntry is an entry as disk and bucket hold it, by gob. Package keep adds the version, a checksum and zstd.
type storedEntry struct {
	Asked   int64 // nanoseconds since 1970
	Notices []string
	Ads     []Ad
}

// encode writes entries, by key.
func encode(entries map[string]*entry) []byte {
	all := make(map[string]storedEntry, len(entries))
	for key, e := range entries {
		stored := storedEntry{Asked: e.asked.UnixNano(), Ads: e.ads}
		if e.remark != nil {
			stored.Notices = e.remark.notices
		}
		all[key] = stored
	}
	var written bytes.Buffer
	_ = gob.NewEncoder(&written).Encode(all) // fails for types that gob does not support, which a test would show
	return written.Bytes()
}

// decode reads the output of encode. Error: segcache.ErrDamaged.
func decode(written []byte) (map[string]*entry, error) {
	var all map[string]storedEntry
	if err := gob.NewDecoder(bytes.NewReader(written)).Decode(&all); err != nil {
		return nil, segcache.ErrDamaged
	}
	entries := make(map[string]*entry, len(all))
	for key, stored := range all {
		e := &entry{asked: time.Unix(0, stored.Asked), ads: stored.Ads}
		if stored.Notices != nil {
			share(stored.Notices)
			e.remark = &remark{notices: stored.Notices}
		}
		for i := range e.ads {
			e.ads[i].shareTexts()
		}
		entries[key] = e
	}
	return entries, nil
}

// shareTexts replaces texts by one copy for all ads, because most ads have the same: gob makes a copy for each.
func (a *Ad) shareTexts() {
	for _, text := range a.sharedTexts() {
		*text = shared(*text)
	}
	share(a.GPUs)
}

func (a *Ad) sharedTexts() []*string {
	return []*string{&a.AccessPoint, &a.User, &a.Machine, &a.Slot, &a.Owner, &a.ChtcProjects, &a.NumVacatesByReason,
		&a.NumVacatesByReasonPreExecution}
}

// share replaces texts by one copy for all ads.
func share(texts []string) {
	for i, text := range texts {
		texts[i] = shared(text)
	}
}
