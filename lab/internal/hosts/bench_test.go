//go:build linux

package hosts_test

import (
	"testing"

	"github.com/windlass-dev/windlass/lab/internal/hosts"
)

func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		hosts.Start(b, hosts.Options{})
	}
}

func BenchmarkPowerCutAndBoot(b *testing.B) {
	h := hosts.Start(b, hosts.Options{})
	for b.Loop() {
		h.PowerCut()
		h.Boot()
	}
}
