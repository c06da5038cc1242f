//go:build !linux

package isolationtest

import "context"

func possible(context.Context) (ok bool, why string) {
	return false, "network namespaces exist on Linux only"
}
