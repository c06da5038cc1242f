package app

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
)

// lookAgain is how long a program that found no UpdatePolicies believes that there are none. A
// search costs the API server one request.
const lookAgain = 5 * time.Second

// installation finds out whether the CRDs of UpdatePolicies are installed, also after the program
// has started. Without it a manager that is older than the CRDs would replace Machines that a
// policy keeps. It is safe for concurrent use.
type installation struct {
	mapper meta.RESTMapper
	now    func() time.Time

	mu sync.Mutex
	// found stays true: a program does not outlive its CRDs.
	found bool
	next  time.Time
}

func newInstallation(mapper meta.RESTMapper, now func() time.Time) *installation {
	return &installation{mapper: mapper, now: now}
}

// check reports whether UpdatePolicies can exist. It fails while only some of the CRDs are
// installed.
func (i *installation) check() (bool, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.found || i.now().Before(i.next) {
		return i.found, nil
	}
	return i.search()
}

// look is check, and searches again if there were none a moment ago.
func (i *installation) look() (bool, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.found {
		return true, nil
	}
	return i.search()
}

// search looks for the CRDs. The caller holds the lock.
func (i *installation) search() (bool, error) {
	found, err := lookForPolicies(i.mapper)
	if err != nil {
		return false, err
	}
	i.found, i.next = found, i.now().Add(lookAgain)
	return found, nil
}
