package pool_test

import (
	"testing"

	"github.com/windlass-dev/windlass/internal/pool"
)

func TestBegin(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		budget           pool.Budget
		created, deleted int32
	}{
		"none":              {budget: pool.NewBudget(0, 1, 0)},
		"a new one first":   {budget: pool.NewBudget(3, 1, 0), created: 1},
		"an old one first":  {budget: pool.NewBudget(3, 0, 1), deleted: 1},
		"one of them":       {budget: pool.NewBudget(3, 0, 0), deleted: 1},
		"both at once":      {budget: pool.NewBudget(3, 1, 1), created: 1, deleted: 1},
		"no more than wish": {budget: pool.NewBudget(3, 5, 5), created: 3, deleted: 3},
	} {
		if created, deleted := tt.budget.Begin(); created != tt.created || deleted != tt.deleted {
			t.Errorf("%s: %d created, %d deleted; want %d, %d",
				name, created, deleted, tt.created, tt.deleted)
		}
	}
}
