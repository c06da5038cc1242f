package settings

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	webhookconfig "k8s.io/apiserver/pkg/admission/plugin/webhook/config"
	apiserverinstall "k8s.io/apiserver/pkg/apis/apiserver/install"
	auditinstall "k8s.io/apiserver/pkg/apis/audit/install"

	"github.com/windlass-dev/windlass/pkg/version"
)

// TestAPIsOfServer compares the APIs of the API server's files with the schemes of its own module, of the
// newest minor that is known here.
func TestAPIsOfServer(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	apiserverinstall.Install(scheme)
	auditinstall.Install(scheme)
	decodes := func(a api) bool {
		gv, err := schema.ParseGroupVersion(a.version)
		if err != nil {
			t.Fatal(err)
		}
		return scheme.Recognizes(gv.WithKind(a.kind))
	}
	webhooks := func(a api) bool {
		_, err := webhookconfig.LoadConfig(strings.NewReader("apiVersion: " + a.version + "\nkind: " + a.kind + "\nkubeConfigFile: /x\n"))
		return err == nil
	}
	compared := 0
	for _, form := range fileForms {
		by := decodes
		switch {
		case form.component != APIServer:
			continue
		case form.flag == "" && strings.HasPrefix(form.apis[0].kind, "Webhook"):
			by = webhooks
		case form.flag == "":
			continue // Their modules are not among those that are built here.
		}
		for _, a := range form.apis {
			compared++
			f, isWrong := examineAPI(Use{Component: APIServer, Kind: API, Name: a.name()}, Newest())
			if by(a) == isWrong {
				t.Errorf("%s: the server decodes it: %t, and the finding is %+v", a.name(), by(a), f)
			}
		}
	}
	if compared < 15 {
		t.Errorf("only %d APIs were compared", compared)
	}
	// What the server's scheme has of these groups is known here.
	for kind := range scheme.AllKnownTypes() {
		if !strings.HasSuffix(kind.Kind, "Configuration") || kind.Version == runtime.APIVersionInternal {
			continue
		}
		if _, _, ok := findAPI(APIServer, kind.GroupVersion().String()+"/"+kind.Kind); !ok {
			t.Errorf("the server decodes %s, which is not known here", kind)
		}
	}
}

// TestAPIForms: each form has an API that the newest minor decodes, and uses it last.
func TestAPIForms(t *testing.T) {
	t.Parallel()
	for _, form := range fileForms {
		last := form.apis[len(form.apis)-1]
		if f, isWrong := examineAPI(Use{Component: form.component, Name: last.name()}, Newest()); isWrong {
			t.Errorf("%s: %+v", last.name(), f)
		}
		if slices.ContainsFunc(form.apis, func(a api) bool { return a.last > 0 && a.first > a.last }) {
			t.Errorf("%s: first is after last", last.name())
		}
	}
	newer := version.Minor{Major: Major, Minor: Newest().Minor + 1}
	if _, isWrong := examineAPI(Use{Component: Scheduler, Name: "kubescheduler.config.k8s.io/v1beta3/KubeSchedulerConfiguration"}, newer); isWrong {
		t.Error("a minor that is not known is judged")
	}
}
