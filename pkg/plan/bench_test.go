package plan_test

import (
	"fmt"
	"testing"

	"github.com/windlass-dev/windlass/pkg/plan"
)

// BenchmarkCompute shows how the cost grows with the number of groups; the comparison with Cluster API's own functions
// stands in the module test/differential.
func BenchmarkCompute(b *testing.B) {
	for _, count := range []int{1, 10, 100, 1000} {
		b.Run(fmt.Sprintf("groups=%d", count), func(b *testing.B) {
			request := plan.Request{Inventory: plan.Inventory{ControlPlane: v("v1.29.0")}, Target: v("v1.33.0"), Source: plan.VersionList(vs(chain29to33))}
			for i := range count {
				request.Inventory.Groups = append(request.Inventory.Groups, plan.Group{
					Name: fmt.Sprintf("pool-%d", i), Version: v(fmt.Sprintf("v1.%d.0", 29-i%3)), MaxMinorStep: uint32(i % 2 * 3),
				})
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := plan.Compute(request); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
