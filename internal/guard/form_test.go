package guard_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/internal/guard"
	"github.com/windlass-dev/windlass/internal/recordjson/formtest"
)

func TestForm(t *testing.T) {
	t.Parallel()
	scope := guard.NewScope(guard.NamespaceEntry("a"), guard.ControlPlaneEntry("b", "c"),
		guard.MachineDeploymentEntry("b", "c", "md-0"))
	formtest.Text(t, "guard-scope", scope.Expression("7-host"), func(text string) error {
		read, writer, ok := guard.ParseExpression(text)
		if diff := cmp.Diff(scope, read); diff != "" || writer != "7-host" || !ok {
			return fmt.Errorf("it is read as %q by %q, %t", read, writer, ok)
		}
		return nil
	})
}
