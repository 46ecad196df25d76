// Package pluginzip packs a built plugin folder as Grafana's catalog wants it, and checks the result as the catalog's
// validator does.
package pluginzip

import (
	"archive/zip"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// Manifest is the list of Go files that the SDK's build writes beside the backend, a line hash:path each. The catalog
// compares it with the source.
const Manifest = "go_plugin_build_manifest"

// parts are files that the catalog asks for.
var parts = []string{"plugin.json", "module.js", "README.md", "CHANGELOG.md", "LICENSE", Manifest}

// notSource are folders that hold no source of the project, wherever they lie: the SDK's build walks through them.
var notSource = []string{"node_modules", "artifacts", "dist", "coverage", "test-results", ".cache", ".git"}

func inNoSource(file string) bool {
	folders := strings.Split(path.Dir(file), "/")
	return slices.ContainsFunc(folders, func(f string) bool { return slices.Contains(notSource, f) })
}

// Pack writes the files below dir into a zip file, beneath one folder with the plugin's id, and checks it. Programs
// stay executable.
func Pack(name, dir, id string) (err error) {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	archive := zip.NewWriter(file)
	source := os.DirFS(dir)
	err = fs.WalkDir(source, ".", func(inside string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		header, err := zip.FileInfoHeader(info)
		if err != nil {
			return err
		}
		header.Name, header.Method = id+"/"+inside, zip.Deflate
		writer, err := archive.CreateHeader(header)
		if err != nil {
			return err
		}
		content, err := fs.ReadFile(source, inside)
		if err != nil {
			return err
		}
		_, err = writer.Write(content)
		return err
	})
	if err := errors.Join(err, archive.Close(), file.Close()); err != nil {
		return fmt.Errorf("packing %s: %w", dir, err)
	}
	return Check(name, id)
}

// Check checks a plugin's zip: one folder, with its parts, and no file of other programs, neither packed nor in the
// list of Go files. Errors name the file.
func Check(name, id string) error {
	archive, err := zip.OpenReader(name)
	if err != nil {
		return err
	}
	defer archive.Close()
	for _, file := range archive.File {
		if inside, ok := strings.CutPrefix(file.Name, id+"/"); !ok || inNoSource(inside) {
			return fmt.Errorf("%s: %s does not belong into it", name, file.Name)
		}
	}
	for _, part := range parts {
		if _, err := fs.Stat(archive, id+"/"+part); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	list, err := fs.ReadFile(archive, id+"/"+Manifest)
	for line := range strings.Lines(string(list)) {
		if _, file, _ := strings.Cut(strings.TrimSpace(line), ":"); inNoSource(file) {
			return fmt.Errorf("%s: %s in the list of Go files is not the project's", name, file)
		}
	}
	return err
}
