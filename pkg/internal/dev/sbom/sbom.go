// Package sbom lists what a built plugin consists of: its software bill of materials, in the form of CycloneDX.
package sbom

import (
	"cmp"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/CycloneDX/cyclonedx-go"
)

// Write writes the bill of the plugin folder dir: the Go modules that its programs (gpx_*) name themselves, and the npm
// packages in its bundle, whose source map names them and whose versions the lock file has. The same folder gives the
// same bill. Errors: a folder without program, bundle or manifest; a bundled package that the lock file does not have.
func Write(out io.Writer, dir, lock string) error {
	var manifest struct {
		ID   string
		Info struct{ Version string }
	}
	if err := readJSON(filepath.Join(dir, "plugin.json"), &manifest); err != nil {
		return err
	}
	programs, err := filepath.Glob(filepath.Join(dir, "gpx_*"))
	if err != nil {
		return err
	}
	if len(programs) == 0 {
		return fmt.Errorf("%s has no program gpx_*: build the backend first", dir)
	}
	modules, err := goModules(programs)
	if err != nil {
		return err
	}
	// The first chunk is always there, others are what it loads when needed.
	chunks, err := filepath.Glob(filepath.Join(dir, "*.js.map"))
	if err != nil {
		return err
	}
	packages, err := npmPackages(append(chunks, filepath.Join(dir, "module.js.map")), lock)
	if err != nil {
		return err
	}
	return encode(out, manifest.ID, manifest.Info.Version, slices.Concat(modules, packages))
}

// WriteProgram writes the bill of a single program: its Go modules.
func WriteProgram(out io.Writer, program, version string) error {
	modules, err := goModules([]string{program})
	if err != nil {
		return err
	}
	return encode(out, filepath.Base(program), version, modules)
}

func encode(out io.Writer, name, version string, components []cyclonedx.Component) error {
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{Component: &cyclonedx.Component{
		BOMRef: name, Type: cyclonedx.ComponentTypeApplication, Name: name, Version: version,
	}}
	var refs []string
	for _, c := range components {
		refs = append(refs, c.BOMRef)
	}
	bom.Components = &components
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: name, Dependencies: &refs}}
	return cyclonedx.NewBOMEncoder(out, cyclonedx.BOMFileFormatJSON).SetPretty(true).SetEscapeHTML(false).Encode(bom)
}

// goModules are the modules of all programs, with Go's standard library, by name and version.
func goModules(programs []string) (all []cyclonedx.Component, err error) {
	for _, program := range programs {
		info, err := buildinfo.ReadFile(program)
		if err != nil {
			return nil, fmt.Errorf("reading what %s is built from: %w", program, err)
		}
		all = append(all, library("golang", "std", strings.TrimPrefix(info.GoVersion, "go")))
		for _, m := range info.Deps {
			for m.Replace != nil {
				m = m.Replace
			}
			all = append(all, library("golang", m.Path, m.Version))
		}
	}
	slices.SortFunc(all, func(a, b cyclonedx.Component) int { return cmp.Compare(a.BOMRef, b.BOMRef) })
	return slices.CompactFunc(all, func(a, b cyclonedx.Component) bool { return a.BOMRef == b.BOMRef }), nil
}

// inPackage finds the folder of the package that a source of a bundle lies in, as lock files name it.
var inPackage = regexp.MustCompile(`(?:^|/)((?:node_modules/(?:@[^/]+/)?[^/]+/)+)`)

// npmPackages are the packages of a bundle's chunks, by name and version.
func npmPackages(sourceMaps []string, lock string) (all []cyclonedx.Component, err error) {
	var sources []string
	for _, sourceMap := range sourceMaps {
		var chunk struct{ Sources []string }
		if err := readJSON(sourceMap, &chunk); err != nil {
			return nil, err
		}
		sources = append(sources, chunk.Sources...)
	}
	var locked struct {
		Packages map[string]struct{ Version, Integrity string }
	}
	if err := readJSON(lock, &locked); err != nil {
		return nil, err
	}
	var folders []string
	for _, source := range sources {
		if found := inPackage.FindStringSubmatch(source); found != nil {
			folders = append(folders, strings.TrimSuffix(found[1], "/"))
		}
	}
	slices.Sort(folders)
	for _, folder := range slices.Compact(folders) {
		p, ok := locked.Packages[folder]
		if !ok {
			return nil, fmt.Errorf("%s is in the bundle, but not in %s: run npm ci and build again", folder, lock)
		}
		c := library("npm", folder[strings.LastIndex(folder, "node_modules/")+len("node_modules/"):], p.Version)
		if c.Hashes, err = hashes(p.Integrity); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", lock, folder, err)
		}
		all = append(all, c)
	}
	return all, nil
}

// library is a component with its package URL, such as pkg:npm/%40grafana/ui@12.3.0.
func library(ecosystem, name, version string) cyclonedx.Component {
	parts := strings.Split(name, "/")
	for i := range parts {
		parts[i] = strings.ReplaceAll(url.PathEscape(parts[i]), "@", "%40")
	}
	purl := "pkg:" + ecosystem + "/" + strings.Join(parts, "/") + "@" + url.PathEscape(version)
	return cyclonedx.Component{BOMRef: purl, Type: cyclonedx.ComponentTypeLibrary, Name: name, Version: version,
		PackageURL: purl}
}

// hashes are npm's integrity of a package, such as sha512-…, in hexadecimal.
func hashes(integrity string) (*[]cyclonedx.Hash, error) {
	sum, ok := strings.CutPrefix(integrity, "sha512-")
	if !ok {
		return nil, fmt.Errorf("the integrity %q is no SHA-512", integrity)
	}
	raw, err := base64.StdEncoding.DecodeString(sum)
	if err != nil {
		return nil, fmt.Errorf("reading the integrity: %w", err)
	}
	return &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA512, Value: hex.EncodeToString(raw)}}, nil
}

func readJSON(path string, to any) error {
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s is missing: build the plugin first", path)
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, to); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
