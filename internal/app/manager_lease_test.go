package app

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/windlass-dev/windlass/internal/capi"
)

// TestLease: the manager holds the lease of Cluster API's core manager, so that only one of the two
// writes.
func TestLease(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile(filepath.Join(clusterAPI(t), "core", "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	upstreams := regexp.MustCompile(`LeaderElectionID:\s+"([^"]+)"`).FindAllStringSubmatch(string(source), -1)
	if len(upstreams) != 1 || upstreams[0][1] != capi.ManagerLease {
		t.Errorf("Cluster API's core manager has the leases %q, want only %s", upstreams, capi.ManagerLease)
	}
	options := ManagerOptions{LeaderElection: LeaderElection{
		Enabled: true, LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second,
		RetryPeriod: 2 * time.Second,
	}}
	lock, err := options.newLock(&rest.Config{Host: "h"})
	// Outside a pod the namespace is unknown, and the error names the lease.
	held := fmt.Sprint(err)
	if err == nil {
		held = lock.Describe()
	}
	if !strings.Contains(held, capi.ManagerLease) {
		t.Errorf("the lock is %q, want the lease %s", held, capi.ManagerLease)
	}
}
