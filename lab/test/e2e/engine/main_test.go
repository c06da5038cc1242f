// Package engine_test upgrades Clusters with the project's own engine on a development plane: chains, hooks, people who change their mind, a
// manager that is killed, and the stock manager in its place and back.
package engine_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/windlass-dev/windlass/lab/internal/programs"
)

// timeout is for everything that the plane is used for; far beyond what a busy machine needs.
const (
	timeout     = 20 * time.Minute
	longTimeout = 2 * time.Hour
)

// seed makes a run's random choices again.
var seed = flag.Uint64("seed", 0, "seed of the random choices (default: a new one)")

func TestMain(m *testing.M) {
	flag.Parse()
	if flag.Arg(0) == extensionRole {
		fmt.Fprintln(os.Stderr, serveExtension(flag.Arg(1), flag.Arg(2), flag.Arg(3)))
		os.Exit(1)
	}
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	// Tests side by side wait for Cluster API most of the time; the number of processors does not matter.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err) // The testing package defines it.
	}
	ctrl.SetLogger(logr.Discard())
	code := m.Run()
	programs.Remove()
	os.Exit(code)
}

func long() bool { return os.Getenv("WINDLASS_LONG") == "1" }

// versions are those of the classes, oldest first.
func versions() []string { return []string{"v1.29.0", "v1.30.0", "v1.31.0", "v1.32.0", "v1.33.0"} }
