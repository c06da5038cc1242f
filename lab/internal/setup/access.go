package setup

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/windlass-dev/windlass/config"
	"github.com/windlass-dev/windlass/lab/internal/devplane"
)

// The ServiceAccounts of `windlass extension` and of Cluster API's core manager, which `windlass manager`
// has, too.
var (
	ExtensionAccount = types.NamespacedName{Namespace: "windlass-system", Name: "windlass-extension"}
	ManagerAccount   = types.NamespacedName{Namespace: "capi-system", Name: "capi-manager"}
)

var extensionAccess = sync.OnceValues(func() ([]json.RawMessage, error) { return access("default") })
var managerAccess = sync.OnceValues(func() ([]json.RawMessage, error) { return access("manager") })

// ExtensionAccess returns the objects of config/default that grant or limit what the extension may do.
func ExtensionAccess() ([]json.RawMessage, error) { return extensionAccess() }

// ManagerAccess returns those of config/manager: what `windlass manager` may do beside Cluster API's core manager.
func ManagerAccess() ([]json.RawMessage, error) { return managerAccess() }

func access(folder string) ([]json.RawMessage, error) {
	files := filesys.MakeFsInMemory()
	err := fs.WalkDir(config.Files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := config.Files.ReadFile(path)
		if err != nil {
			return fmt.Errorf("reading %s: %w", path, err)
		}
		return files.WriteFile("config/"+path, data)
	})
	if err != nil {
		return nil, fmt.Errorf("reading the manifests: %w", err)
	}
	return devplane.Render(files, "config/"+folder, devplane.AccessKinds...)
}
