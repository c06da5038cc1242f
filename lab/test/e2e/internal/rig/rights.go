package rig

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/windlass-dev/windlass/lab/internal/devplane"
	"github.com/windlass-dev/windlass/lab/internal/rights"
	"github.com/windlass-dev/windlass/lab/internal/setup"
)

// CheckRefusals fails the test at its end for each request of Windlass' ServiceAccounts that the API server
// refused because no rule allows it. Call it after what stops the plane is registered.
func CheckRefusals(t *testing.T, p *devplane.Plane) {
	t.Helper()
	t.Cleanup(func() {
		for _, account := range []types.NamespacedName{setup.ExtensionAccount, setup.ManagerAccount} {
			for _, request := range ReadRequests(t, p, account).Refused {
				t.Errorf("%s may not %s, and asked for it. Fix: add the rule to config, or do not send the request", account, request)
			}
		}
	})
}

// CheckUnused fails the test for each grant of the roles among objects that a ServiceAccount has not used yet. Grants whose
// texts are in except are left out.
func CheckUnused(t *testing.T, p *devplane.Plane, account types.NamespacedName, objects []json.RawMessage, except ...string) {
	t.Helper()
	grants, err := rights.Grants(objects)
	if err != nil {
		t.Fatal(err)
	}
	for _, grant := range rights.Unused(grants, ReadRequests(t, p, account).Allowed) {
		if slices.Contains(except, fmt.Sprint(grant)) {
			continue
		}
		t.Errorf("%s sent no request that needs the right %q. Fix: remove the rule, or extend the scenario", account, grant)
	}
}

// ReadRequests reads what a plane's API server has recorded of a ServiceAccount.
func ReadRequests(t *testing.T, p *devplane.Plane, account types.NamespacedName) rights.Log {
	t.Helper()
	data, err := os.ReadFile(p.AuditLog())
	if err != nil {
		t.Fatal(err)
	}
	log, err := rights.ReadLog(data, "system:serviceaccount:"+account.Namespace+":"+account.Name)
	if err != nil {
		t.Fatal(err)
	}
	return log
}
