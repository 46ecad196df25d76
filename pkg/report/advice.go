package report

import "github.com/grafana/grafana-plugin-sdk-go/data"

// adviceSentences say of each device how long a backfill job can be.
func adviceSentences(_ layout, frames data.Frames) (b Block) {
	for _, frame := range frames {
		device, advice := column(frame, "device"), column(frame, "advice")
		if device == nil || advice == nil {
			continue
		}
		for r := range device.Len() {
			b.Paragraphs = append(b.Paragraphs, clean(text(device, r))+": "+text(advice, r)+".")
		}
	}
	return b
}
