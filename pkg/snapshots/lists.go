package snapshots

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/chtc/gpureports/pkg/pool"
)

// The lists' default names. A default that is missing is no error.
const (
	DefaultCHTCOwned      = "chtc_owned"
	DefaultHostExclusions = "masked_hosts.yaml"
	DefaultGPUTiers       = "gpu_tiers.yaml"
)

// Lists reads the two lists of methodology section 2: chtcOwned (a machine a line, # begins a comment) and
// hostExclusions (`excluded_hosts: {pattern: reason}`), plain names inside the directory; "" means the default.
func (d *Dir) Lists(chtcOwned, hostExclusions string) (pool.Lists, error) {
	var lists pool.Lists
	text, err := d.read("chtcOwnedFile", chtcOwned, DefaultCHTCOwned)
	if err != nil {
		return lists, err
	}
	lists.CHTCOwned = map[string]bool{}
	for line := range strings.Lines(string(text)) {
		machine, _, _ := strings.Cut(line, "#")
		if machine = strings.TrimSpace(machine); machine != "" {
			lists.CHTCOwned[machine] = true
		}
	}
	text, err = d.read("hostExclusionsFile", hostExclusions, DefaultHostExclusions)
	if err != nil {
		return lists, err
	}
	var document struct {
		ExcludedHosts yaml.Node `yaml:"excluded_hosts"`
	}
	if err := yaml.Unmarshal(text, &document); err != nil {
		return lists, pool.SourceError("hostExclusionsFile is no YAML of the form `excluded_hosts: {pattern: reason}`: %w",
			err)
	}
	node := document.ExcludedHosts
	if node.Kind != 0 && node.Kind != yaml.MappingNode && node.Tag != "!!null" {
		return lists, pool.SourceError("hostExclusionsFile: excluded_hosts must map patterns to reasons (line %d)", node.Line)
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		pattern, reason := node.Content[i], node.Content[i+1]
		if strings.TrimSpace(pattern.Value) == "" {
			return lists, pool.SourceError("hostExclusionsFile: an empty pattern would exclude every machine (line %d)",
				pattern.Line)
		}
		lists.Excluded = append(lists.Excluded, pool.Exclusion{Pattern: pattern.Value, Reason: reason.Value})
	}
	return lists, nil
}

// Tiers reads the classes of GPUs (`tiers: {Flagship: [pattern, …], …}`) from a plain name inside the directory, ""
// means the default. Without the file it returns nil: the default tiers.
func (d *Dir) Tiers(file string) ([]pool.Tier, error) {
	text, err := d.read("gpuTiersFile", file, DefaultGPUTiers)
	if err != nil || text == nil {
		return nil, err
	}
	var document struct {
		Tiers yaml.Node `yaml:"tiers"`
	}
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, pool.SourceError("gpuTiersFile is no YAML of the form `tiers: {name: [patterns]}`: %w", err)
	}
	node := document.Tiers
	if node.Kind != 0 && node.Kind != yaml.MappingNode && node.Tag != "!!null" {
		return nil, pool.SourceError("gpuTiersFile: tiers must map names to lists of patterns (line %d)", node.Line)
	}
	tiers := []pool.Tier{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		tier := pool.Tier{Name: strings.TrimSpace(node.Content[i].Value)}
		if err := node.Content[i+1].Decode(&tier.Patterns); err != nil || tier.Name == "" {
			return nil, pool.SourceError("gpuTiersFile: tiers must map names to lists of patterns (line %d)",
				node.Content[i].Line)
		}
		for _, p := range tier.Patterns {
			if strings.TrimSpace(p) == "" {
				return nil, pool.SourceError("gpuTiersFile: an empty pattern would fit every GPU (line %d)", node.Content[i].Line)
			}
		}
		tiers = append(tiers, tier)
	}
	return tiers, nil
}

// maxList bounds a list file: the longest known one has a hundred lines.
const maxList = 4 << 20

func (d *Dir) read(setting, name, fallback string) ([]byte, error) {
	file := name
	if name == "" {
		file = fallback
	}
	if file != filepath.Base(file) || file == "." || file == ".." {
		return nil, pool.BadQuery("%s %q must be a plain file name inside the snapshot directory", setting, name)
	}
	info, err := d.root.Stat(file)
	if name == "" || name == fallback {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
	}
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is no regular file")
	}
	if err == nil && info.Size() > maxList {
		return nil, pool.SourceError("%s %s has %d bytes: more than %d cannot be a list", setting, file, info.Size(), maxList)
	}
	var text []byte
	if err == nil {
		text, err = d.root.ReadFile(file)
	}
	if err != nil {
		return nil, pool.SourceError("%s %s cannot be read: %w", setting, file, Bare(err))
	}
	return text, nil
}
