package machineset

import "context"

// preflight runs the checks that a MachineSet must pass before it creates a Machine.
func (r *Run) preflight(ctx context.Context, action string) ([]string, error) {
	return nil, nil
}
