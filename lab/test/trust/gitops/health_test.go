package gitops

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	lua "github.com/yuin/gopher-lua"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/windlass-dev/windlass/lab/internal/devplane"
)

// argoHealth is the health in Argo CD that means the same as a status of kstatus.
//
//nolint:exhaustive // Our kinds never have the other statuses.
var argoHealth = map[status.Status]string{
	status.CurrentStatus: "Healthy", status.InProgressStatus: "Progressing", status.FailedStatus: "Degraded",
}

// readScripts reads config/argocd: the health script of each kind.
func readScripts(t *testing.T) map[string]string {
	t.Helper()
	root, err := devplane.FindSource(".")
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(root, "config", "argocd", "argocd-cm.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var config corev1.ConfigMap
	if err := yaml.UnmarshalStrict(data, &config); err != nil {
		t.Fatal(err)
	}
	return config.Data
}

// runScript runs a health script as Argo CD does: the object is the global obj, and the result is a
// table.
func runScript(t *testing.T, script string, object *unstructured.Unstructured) (health, message string) {
	t.Helper()
	l := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer l.Close()
	for _, open := range []lua.LGFunction{lua.OpenBase, lua.OpenTable, lua.OpenString} {
		l.Push(l.NewFunction(open))
		l.Call(0, 0)
	}
	l.SetGlobal("obj", toLua(t, l, object.Object))
	if err := l.DoString(script); err != nil {
		t.Fatal(err)
	}
	result, ok := l.Get(-1).(*lua.LTable)
	if !ok {
		t.Fatalf("the script returned %s", l.Get(-1))
	}
	return result.RawGetString("status").String(), result.RawGetString("message").String()
}

func toLua(t *testing.T, l *lua.LState, value any) lua.LValue {
	t.Helper()
	switch value := value.(type) {
	case nil:
		return lua.LNil
	case string:
		return lua.LString(value)
	case bool:
		return lua.LBool(value)
	case int64:
		return lua.LNumber(value)
	case float64:
		return lua.LNumber(value)
	case []any:
		table := l.NewTable()
		for _, item := range value {
			table.Append(toLua(t, l, item))
		}
		return table
	case map[string]any:
		table := l.NewTable()
		for name, item := range value {
			table.RawSetString(name, toLua(t, l, item))
		}
		return table
	}
	t.Fatalf("no Lua value for %T", value)
	return nil
}
