package report

import "github.com/grafana/grafana-plugin-sdk-go/data"

// adviceSentences say of each device how long a backfill job can be.
func adviceSentences(_ layout, frames data.Frames) (b Block) {
	for r := range records(frames) {
		b.Paragraphs = append(b.Paragraphs, clean(r.text("device"))+": "+r.text("advice")+".")
	}
	return b
}
