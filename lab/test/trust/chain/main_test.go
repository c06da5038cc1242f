// Package chain_test upgrades Clusters with `windlass manager` beside a real API server. The tests play the providers and the
// extensions.
package chain_test

import (
	"testing"

	"github.com/windlass-dev/windlass/lab/test/wire"
)

func TestMain(m *testing.M) { wire.Main(m) }
