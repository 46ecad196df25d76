package frames

import (
	"fmt"
	"math"
	"strconv"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/query"
)

// minutesRows bounds the values that get a text of their own in a column.
const minutesRows = 1000

// manyHours is how many hours read better as days.
const manyHours = 48

// minutes shows a table's hours below one as minutes and many hours as days, which Grafana's unit of hours does not or
// only in turn with weeks: each value is mapped to its text, and stays a number for sorting and calculating.
func minutes(field *data.Field) {
	if field.Config.Unit != query.Hours || field.Len() > minutesRows {
		return
	}
	texts := data.ValueMapper{}
	for i := range field.Len() {
		value, ok := field.ConcreteAt(i)
		hours, isNumber := value.(float64)
		if !ok || !isNumber || hours <= 0 || hours >= 1 && hours <= manyHours {
			continue
		}
		text := Duration(hours)
		if hours > manyHours {
			text = Decimal(math.Round(hours/24*10)/10) + " d"
		}
		texts[strconv.FormatFloat(hours, 'f', -1, 64)] = data.ValueMappingResult{Text: text}
	}
	if len(texts) > 0 {
		field.Config.Mappings = append(field.Config.Mappings, texts)
	}
}

// Duration is a number of hours as people say it: minutes below one hour, otherwise hours with a decimal.
func Duration(hours float64) string {
	switch minutes := math.Round(hours * 60); {
	case minutes < 1:
		return "< 1 min"
	case minutes < 60:
		return fmt.Sprintf("%.0f min", minutes)
	}
	return Decimal(math.Round(hours*10)/10) + " h"
}
