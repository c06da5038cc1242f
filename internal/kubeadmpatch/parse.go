package kubeadmpatch

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/windlass-dev/windlass/internal/untrusted"
)

const (
	// MaxBytes bounds a patch, and a document that is patched. A YAML parser needs more than 100 bytes
	// for each byte of some texts.
	MaxBytes = 64 << 10
	// maxOperations bounds the documents of merge patches and the operations of JSON patches, in one file
	// and for one target: to apply one takes time in proportion to the patched document.
	maxOperations = 256
)

// limits bound a patch, and a document that is patched. Libraries read a value again at each level
// above it.
var limits = untrusted.Limits{Bytes: MaxBytes, Depth: 16, Nodes: 4_000}

var (
	errTooMany = fmt.Errorf("it has more than %d operations", maxOperations)
	errSplit   = errors.New("a line begins with --- and has more than a comment")
)

// unread is the error about a patch that cannot be read. It continues a sentence that begins with the
// patch.
func unread(err error) error {
	if strings.Contains(err.Error(), "Fix: ") {
		return fmt.Errorf("cannot be read: %w", err)
	}
	return fmt.Errorf("cannot be read: %w. Fix: correct it", err)
}

// document is one of the YAML documents in a patch: as kubeadm reads it, and decoded.
type document struct {
	json []byte
	tree any
}

// parse splits and decodes a patch in the way of kubeadm. It refuses more than kubeadm does. An error
// has no text of the patch.
func parse(ctx context.Context, content []byte) ([]document, error) {
	bounded := limits.Until(ctx)
	if len(content) > bounded.Bytes {
		return nil, &untrusted.LimitError{Kind: untrusted.Bytes, Max: bounded.Bytes}
	}
	var documents []document
	total := 0
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for {
		text, err := reader.Read()
		switch {
		case errors.Is(err, io.EOF):
			return documents, nil
		case err != nil:
			return nil, errSplit
		}
		if text = bytes.TrimSpace(text); len(text) == 0 {
			continue
		}
		if len(documents) == maxOperations {
			return nil, errTooMany
		}
		var d document
		if d.json, err = bounded.YAMLToJSON(text); err != nil {
			return nil, err
		}
		// YAML aliases can make more of it than the text.
		if total += len(d.json); total > bounded.Bytes {
			return nil, &untrusted.LimitError{Kind: untrusted.Bytes, Max: bounded.Bytes}
		}
		if d.tree, err = bounded.Tree(d.json); err != nil {
			return nil, err
		}
		documents = append(documents, d)
	}
}
