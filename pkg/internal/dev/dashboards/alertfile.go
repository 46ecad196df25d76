package dashboards

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"
)

// SourceUID is the data source that alert rules ask (they know no variables): the one in provisioning/datasources.
const SourceUID = "gpureports"

// alertFile is a provisioning file of alert rules.
type alertFile struct {
	path, group string
	source      string // the data source that the rules ask, by UID
	rules       []Rule
}

const alertFileHead = `# Alert rules of GPU Reports, made by "go generate ./pkg/internal/dev/dashboards" (alerts.go).
# They ask the data source with the uid "%s". Copy the file to change thresholds: each rule's
# condition stands in the part with refId "Condition", and what is not wanted can be left out.
`

// text is the file as Grafana reads it.
func (f alertFile) text() ([]byte, error) {
	var rules []object
	for _, r := range f.rules {
		rule, err := r.model(f.source)
		if err != nil {
			return nil, fmt.Errorf("alert rule %s: %w", r.UID, err)
		}
		rules = append(rules, rule)
	}
	file := struct {
		APIVersion int      `yaml:"apiVersion"`
		Groups     []object `yaml:"groups"`
	}{1, []object{{"orgId": 1, "name": f.group, "folder": "GPU Reports", "interval": "5m", "rules": rules}}}
	text := bytes.NewBufferString(fmt.Sprintf(alertFileHead, f.source))
	e := yaml.NewEncoder(text)
	e.SetIndent(2)
	if err := e.Encode(file); err != nil {
		return nil, fmt.Errorf("alert rules: %w", err)
	}
	return text.Bytes(), nil
}

// refIDs name a rule's queries.
const refIDs = "ABCDEFGH"

// expressions is the data source that computes in Grafana's server.
const expressions = "__expr__"

func (r Rule) model(source string) (object, error) {
	var data []object
	for i, q := range r.Queries {
		refID := refIDs[i : i+1]
		asked := refID
		if q.Reduce != "" {
			asked = refID + "series"
		}
		model, err := q.model(asked)
		if err != nil {
			return nil, err
		}
		data = append(data, object{
			"refId": asked, "datasourceUid": source, "model": model,
			"relativeTimeRange": object{"from": int(q.Since.Seconds()), "to": int(q.Until.Seconds())},
		})
		if q.Reduce != "" {
			data = append(data, expression(refID, object{"type": "reduce", "expression": asked, "reducer": q.Reduce,
				"settings": object{"mode": "dropNN"}}))
		}
	}
	data = append(data, expression("Condition", object{"type": "math", "expression": r.Condition}))
	panel := 0
	for _, d := range slices.Concat(All(), Fleet()) {
		if d.UID == r.Dashboard {
			panel = d.panelID(r.Panel)
		}
	}
	if panel == 0 {
		return nil, fmt.Errorf("there is no dashboard %s with a panel %q", r.Dashboard, r.Panel)
	}
	annotations := object{"summary": r.Summary, "description": r.Description, "__dashboardUid__": r.Dashboard,
		"__panelId__": fmt.Sprint(panel)}
	if r.Of != "" { // Grafana's own link to the panel leaves variables as they are
		annotations["link"] = fmt.Sprintf(`{{ reReplaceAll "/$" "" externalURL }}/d/%s?var-%s={{ urlquery $labels.%[2]s }}&`+
			`viewPanel=panel-%[3]d`, r.Dashboard, r.Of, panel)
	}
	return object{
		"uid": r.UID, "title": r.Title, "condition": "Condition", "data": data, "for": shortDuration(r.For),
		"noDataState": cmp.Or(r.NoData, "OK"), "execErrState": cmp.Or(r.Failed, "KeepLast"), "isPaused": r.Paused,
		"labels": object{"severity": r.Severity}, "annotations": annotations,
	}, nil
}

// model is the query as plain YAML, named.
func (q RuleQuery) model(refID string) (object, error) {
	text, err := json.Marshal(q.current(refID))
	if err != nil {
		return nil, err
	}
	var model object
	if err := json.Unmarshal(text, &model); err != nil {
		return nil, err
	}
	return model, nil
}

func expression(refID string, model object) object {
	model["refId"] = refID
	model["datasource"] = object{"type": expressions, "uid": expressions}
	return object{"refId": refID, "datasourceUid": expressions, "model": model}
}

// shortDuration is a duration as Grafana writes it: one number and its unit.
func shortDuration(d time.Duration) string {
	if d%time.Hour == 0 {
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dm", d/time.Minute)
}
