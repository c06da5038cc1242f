package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// document is one of the documents that the project was created from.
type document struct {
	// Number is its number, such as 003.
	Number string `json:"number"`
	Title  string `json:"title"`
	// Requirements are in the order of the document.
	Requirements []requirement `json:"requirements"`
}

// requirement is one demand of a document.
type requirement struct {
	// ID is the number of the document, and that of the requirement in it: 003-07.
	ID string `json:"id"`
	// Text is what is demanded, in our words.
	Text string `json:"text"`
	// Code is what meets it.
	Code place `json:"code,omitzero"`
	// Test fails without Code.
	Test place `json:"test,omitzero"`
	// Live is a test that shows the requirement beside real processes.
	Live place `json:"live,omitzero"`
	// Mutant removes the requirement.
	Mutant *mutant `json:"mutant,omitempty"`
	// Deviation says what is different here, and why; empty for nothing.
	Deviation string `json:"deviation,omitempty"`
}

// place is a declaration: FOLDER.NAME, where FOLDER is a folder of the repository, without a dot in
// its name. NAME is TYPE.METHOD for a method. Of a test, /SUBTEST may follow.
type place struct {
	folder, name, subtest string
}

// mutant replaces text in a Go file of the product.
type mutant struct {
	File string `json:"file"`
	// Old occurs once in the file.
	Old string `json:"old"`
	New string `json:"new"`
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *place) UnmarshalText(text []byte) error {
	folder, rest, found := strings.Cut(string(text), ".")
	if !found || folder == "" || rest == "" {
		return fmt.Errorf("place %q names no declaration. Fix: write FOLDER.NAME", text)
	}
	p.folder = folder
	p.name, p.subtest, _ = strings.Cut(rest, "/")
	return nil
}

// String is the opposite of UnmarshalText.
func (p place) String() string {
	words := p.folder + "." + p.name
	if p.subtest != "" {
		words += "/" + p.subtest
	}
	return words
}

// read reads the documents, one from each file of a folder, in the order of their names.
func read(folder string) ([]document, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		return nil, fmt.Errorf("listing the files of %s: %w", folder, err)
	}
	documents := make([]document, len(files))
	for i, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("reading the requirements: %w", err)
		}
		if err := yaml.UnmarshalStrict(data, &documents[i]); err != nil {
			return nil, fmt.Errorf("reading %s: %w", file, err)
		}
	}
	return documents, nil
}
