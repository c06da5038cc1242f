package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/inplace/request"
	"github.com/windlass-dev/windlass/internal/port"
	"github.com/windlass-dev/windlass/internal/port/porttest"
	"github.com/windlass-dev/windlass/pkg/version"
)

// errDied is what a process panics with that dies in a test.
// deaths end the process at one effect: there are two points around each, before and after it.
type deaths struct {
	mu sync.Mutex
	// at is the point at which the process dies, from 1; 0 for none. passed counts points.
	at, passed int
	what       string
}

func (f *deaths) around(name string, effect func() error) error {
	f.point("before " + name)
	err := effect()
	f.point("after " + name)
	return err
}

func (f *deaths) point(name string) {
	f.mu.Lock()
	f.passed++
	dies := f.passed == f.at
	if dies {
		f.what = name
	}
	f.mu.Unlock()
	if dies {
		panic(errDied)
	}
}

// deadlyNodes are nodes whose drains and uncordons can be where the process dies.
type deadlyNodes struct {
	*porttest.Nodes
	faults *deaths
}

func (n *deadlyNodes) Drain(ctx context.Context, cluster, machine types.NamespacedName, node string) (status port.DrainStatus, err error) {
	err = n.faults.around("drain", func() error {
		status, err = n.Nodes.Drain(ctx, cluster, machine, node)
		return err
	})
	return status, err
}

func (n *deadlyNodes) Uncordon(ctx context.Context, cluster types.NamespacedName, node string) error {
	return n.faults.around("uncordon", func() error { return n.Nodes.Uncordon(ctx, cluster, node) })
}

func (n *deadlyNodes) DisableScaleDown(ctx context.Context, cluster types.NamespacedName, node string) error {
	return n.faults.around("disable scale-down", func() error { return n.Nodes.DisableScaleDown(ctx, cluster, node) })
}

func (n *deadlyNodes) EnableScaleDown(ctx context.Context, cluster types.NamespacedName, node string) error {
	return n.faults.around("enable scale-down", func() error { return n.Nodes.EnableScaleDown(ctx, cluster, node) })
}

// installer is an updater that works: it takes some polls for an operation, and does each once.
type installer struct {
	w *upgradeWorld
	// takes is how many polls an operation takes; covers says that it changes versions, mute that it cannot be asked.
	takes  int
	covers bool
	mute   error
	// answer, if there is one, takes the place of the work.
	answer func(request *runtimehooksv1.UpdateMachineRequest) inplace.Answer

	// ready is the answer to CanBegin, and questions are those that were asked.
	ready     inplace.Readiness
	questions []runtimehooksv1.UpdateMachineRequest

	// asked counts the questions what it covers.
	asked int
	polls map[string]int
	// completed counts finished work by machine and operation.
	completed map[string]int
	// requests are the requests to update a machine; flying the machines that work has begun on and not ended.
	requests []runtimehooksv1.UpdateMachineRequest
	flying   map[string]bool
	most     int
}

func (i *installer) CanUpdateMachine(_ context.Context, request *runtimehooksv1.CanUpdateMachineRequest) (cover.Patches, error) {
	i.asked++
	if i.mute != nil || !i.covers {
		return cover.Patches{}, i.mute
	}
	patch := fmt.Sprintf(`{"spec":{"version":%q}}`, request.Desired.Machine.Spec.Version)
	return cover.Patches{Machine: cover.Patch{Type: cover.JSONMergePatch, Data: []byte(patch)}}, nil
}

func (*installer) CanUpdateMachineSet(context.Context, *runtimehooksv1.CanUpdateMachineSetRequest) (cover.Patches, error) {
	return cover.Patches{}, errors.New("nobody asks this")
}

func (i *installer) CanBegin(_ context.Context, request *runtimehooksv1.UpdateMachineRequest) inplace.Readiness {
	i.questions = append(i.questions, *request)
	return i.ready
}

func (i *installer) Check(context.Context) error { return nil }

func (i *installer) UpdateMachine(_ context.Context, request *runtimehooksv1.UpdateMachineRequest) (a inplace.Answer) {
	i.requests = append(i.requests, *request)
	_ = i.w.faults.around("call", func() error {
		if i.answer != nil {
			a = i.answer(request)
		} else {
			a = i.work(&request.Desired.Machine)
		}
		return nil
	})
	return a
}

func (i *installer) work(m *clusterv1.Machine) inplace.Answer {
	key := m.Name + " " + m.Annotations[v1alpha1.OperationIDAnnotation]
	i.flying[m.Name] = true
	i.most = max(i.most, len(i.flying))
	if i.polls[key]++; i.polls[key] < i.takes {
		return inplace.Answer{Outcome: inplace.InProgress, Message: "working", RetryAfter: time.Second}
	}
	if i.completed[key] == 0 {
		i.completed[key]++
		i.w.nodes.Edit(inCluster, m.Name, func(n *inplace.Node) { n.Kubelet = installs(m) })
	}
	delete(i.flying, m.Name)
	return inplace.Answer{Outcome: inplace.Finishes}
}

// installs is what a kubelet runs after an option.
func installs(m *clusterv1.Machine) version.Version {
	option, err := request.ParseOption(m.Annotations[v1alpha1.InPlaceUpgradeOptionAnnotation])
	if err != nil {
		panic(err)
	}
	if exact, ok := option.Exact(); ok {
		return exact
	}
	minor, _ := option.Minor()
	return version.MustParse("v" + strings.TrimPrefix(minor.String(), "v") + ".9")
}
