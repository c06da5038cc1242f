//go:build !linux

package devplane

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

var errNoNamespaces = errors.New("network namespaces exist on Linux only")

func isolations() []*syscall.SysProcAttr { return nil }

func loopbackUp() error { return errNoNamespaces }

func openPeerNamespace(string) (*os.File, error) { return nil, errNoNamespaces }

func connectVeth(Veth, *os.File) error { return errNoNamespaces }

// controlAddress is subject to the system's limit on the length of socket paths, about 100 bytes.
func controlAddress(dir *os.File) string { return filepath.Join(dir.Name(), socketName) }

func attributesFlags(*syscall.SysProcAttr) uintptr { return 0 }

// childrenSurvive says whether children outlive a supervisor that crashes.
const childrenSurvive = true
