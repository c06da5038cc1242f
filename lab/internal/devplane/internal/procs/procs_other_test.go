//go:build !linux

package procs

import "testing"

func skipUnlessLinux(t *testing.T) {
	t.Helper()
	t.Skip("only Linux ends children with their parent")
}
