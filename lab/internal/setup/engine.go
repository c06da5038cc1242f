package setup

import (
	"context"
	"fmt"
	"slices"

	"github.com/windlass-dev/windlass/lab/internal/devplane"
	"github.com/windlass-dev/windlass/pkg/plan"
)

// Engine is whose core manager runs on a plane.
type Engine string

// EngineStock is Cluster API's capi-controller-manager; EngineWindlass is "windlass manager" in its place.
const (
	EngineStock    Engine = "stock"
	EngineWindlass Engine = "windlass"
)

// ManagerName is the name of the process of "windlass manager" on a plane.
const ManagerName = "windlass-manager"

// ParseEngine reads the name of an engine.
func ParseEngine(text string) (Engine, error) {
	if e := Engine(text); e == EngineStock || e == EngineWindlass {
		return e, nil
	}
	return "", fmt.Errorf("%q is not an engine: use %s or %s", text, EngineStock, EngineWindlass)
}

// Child is the name of the engine's process on a plane.
func (e Engine) Child() string {
	if e == EngineWindlass {
		return ManagerName
	}
	return devplane.CoreManager
}

// Workers is how the engine stops groups on the way.
func (e Engine) Workers() plan.Workers {
	if e == EngineWindlass {
		return plan.WorkersPerGroup
	}
	return plan.WorkersShared
}

// Children are what a plane's configuration needs for the engine. executable is the windlass binary.
func (e Engine) Children(executable string) ([]devplane.Child, error) {
	if e != EngineWindlass {
		return nil, nil
	}
	manager, err := Manager(executable)
	return []devplane.Child{manager}, err
}

// Manager describes "windlass manager" as a process of a plane, in the place of the stock core manager and with its arguments,
// its ServiceAccount, and the rights that config/manager adds. It does not serve the extension, which has a process of its own
// there and stays when the engine is changed.
func Manager(executable string) (devplane.Child, error) {
	access, err := ManagerAccess()
	return devplane.Child{
		Name: ManagerName, Path: executable, Args: []string{"manager"}, Replaces: devplane.CoreManager, StockArgs: true,
		Objects: access, Ready: devplane.Readiness{URL: "http://127.0.0.1:$(HEALTH_PORT)/readyz"},
	}, err
}

// RunningEngine returns the engine whose process runs; none where neither does.
func RunningEngine(status devplane.Status) (engine Engine, ok bool) {
	for _, e := range []Engine{EngineStock, EngineWindlass} {
		if slices.ContainsFunc(status.Children, func(c devplane.ChildStatus) bool { return c.Name == e.Child() && runs(c) }) {
			return e, true
		}
	}
	return "", false
}

func runs(c devplane.ChildStatus) bool {
	switch c.State {
	case devplane.ChildStarting, devplane.ChildReady, devplane.ChildStopping, devplane.ChildRestarting:
		return true
	case devplane.ChildStopped, devplane.ChildExited:
		return false
	}
	return false
}

// SwitchEngine stops the engine that runs on a plane, starts the other one, and returns once it is healthy. An engine that runs already is left
// alone. On an error the plane may be without one; SwitchEngine can then be called again.
func SwitchEngine(ctx context.Context, plane *devplane.Plane, executable string, to Engine) error {
	status, err := plane.Status(ctx)
	if err != nil {
		return err
	}
	from := EngineStock
	if to == EngineStock {
		from = EngineWindlass
	}
	known := func(name string) bool {
		return slices.ContainsFunc(status.Children, func(c devplane.ChildStatus) bool { return c.Name == name })
	}
	if known(from.Child()) {
		if _, err := plane.StopChild(ctx, from.Child()); err != nil {
			return fmt.Errorf("stopping the engine %s: %w", from, err)
		}
	}
	if known(to.Child()) {
		_, err = plane.StartChild(ctx, to.Child())
	} else {
		var manager devplane.Child
		if manager, err = Manager(executable); err == nil {
			_, err = plane.AddChild(ctx, manager)
		}
	}
	if err != nil {
		return fmt.Errorf("starting the engine %s: %w", to, err)
	}
	return nil
}
