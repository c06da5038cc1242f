//go:build linux

// Package standin is kubeadm, kubelet, kubectl, k3s and rke2 for tests that need their command lines, files and processes, and
// no Kubernetes. Each is a copy of the multi-call binary with a trailer that holds its name and version, so that two versions
// differ in their digests, and a process shows as what it is.
package standin

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
)

const magic = "windlass stand-in"

// Trailer is what a copy of the binary stands in for.
type Trailer struct {
	Name, Version string
}

// Append returns the binary with the trailer behind it.
func Append(binaryFile []byte, t Trailer) ([]byte, error) {
	text, err := json.Marshal(t)
	if err != nil {
		return nil, fmt.Errorf("writing a trailer: %w", err)
	}
	result := append(bytes.Clone(binaryFile), text...)
	result = binary.BigEndian.AppendUint32(result, uint32(len(text)))
	return append(result, magic...), nil
}

// Read returns the trailer of a file; found is false where it has none.
func Read(path string) (t Trailer, found bool, err error) {
	file, err := os.Open(path)
	if err != nil {
		return t, false, err
	}
	defer func() { _ = file.Close() }()
	end := make([]byte, 4+len(magic))
	at, err := file.Seek(-int64(len(end)), io.SeekEnd)
	if err != nil {
		return t, false, err
	}
	if _, err := io.ReadFull(file, end); err != nil {
		return t, false, err
	}
	if string(end[4:]) != magic {
		return t, false, nil
	}
	text := make([]byte, binary.BigEndian.Uint32(end))
	if _, err := file.ReadAt(text, at-int64(len(text))); err != nil {
		return t, false, err
	}
	err = json.Unmarshal(text, &t)
	return t, true, err
}
