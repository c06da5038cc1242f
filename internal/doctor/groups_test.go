package doctor

import (
	"strings"
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// TestGroupsOfMachines: the Machines of a MachinePool are in no MachineDeployment, also not in one that
// does not exist yet.
func TestGroupsOfMachines(t *testing.T) {
	t.Parallel()
	f := healthy()
	f.Objects.MachineDeployments = nil
	f.Objects.Machines = []*clusterv1.Machine{machine("pool-0", map[string]string{clusterv1.MachinePoolNameLabel: "mp"})}
	for _, g := range listGroups(f) {
		if len(g.machines) > 0 {
			t.Errorf("%s has Machine %s", g.Subject, g.machines[0].Name)
		}
	}
}

// TestHealthy: each check says that all is well, and so does the summary.
func TestHealthy(t *testing.T) {
	all, _ := Examine(healthy())
	if got := bad(all); len(got) > 0 {
		t.Errorf("findings of a healthy cluster:\n%s", strings.Join(got, "\n"))
	}
	if Worst(all) != OK {
		t.Errorf("the worst is %s", Worst(all))
	}
	said := make(map[ID]bool)
	for _, f := range all {
		said[f.ID] = true
		if f.Message == "" || f.Subject == "" {
			t.Errorf("%+v says nothing", f)
		}
	}
	for _, c := range checks {
		if !said[c.id] && c.id != CheckUnread {
			t.Errorf("%s says nothing", c.id)
		}
	}
	if all[0].ID != CheckMachinesKept || all[0].Subject != controlPlane || all[1].Subject != workers {
		t.Errorf("the findings begin with %+v", all[:2])
	}
}
