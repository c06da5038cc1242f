package kube

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/bits"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/windlass-dev/windlass/internal/settings"
	"github.com/windlass-dev/windlass/pkg/version"
)

// Settings are what each component of one minor knows, in the form of [settings.Catalog.Lines].
type Settings map[settings.Component][]string

// cataloged are the versions of the minors whose settings can be cataloged, and that have no file of
// requirements in the folder minors. The last patch of a minor has all gates that the others have.
var cataloged = []string{"v1.28.15", "v1.29.15", "v1.30.14", "v1.31.14", "v1.32.13", "v1.33.13"}

// substitutes are patches of staged modules in the place of those that are not published. They have
// types and helpers only, no flags and no gates.
var substitutes = map[string]string{
	"k8s.io/endpointslice v0.31.14":           "v0.31.13",
	"k8s.io/kube-controller-manager v0.31.14": "v0.31.13",
	"k8s.io/kube-proxy v0.31.14":              "v0.31.11",
	"k8s.io/kube-scheduler v0.31.14":          "v0.31.13",
	"k8s.io/endpointslice v0.32.13":           "v0.32.12",
}

// ReadSettings asks the components of a minor for their settings. It compiles them: minutes, unless
// the minor's other programs are built already. Their settings are in Go's cache afterwards.
func ReadSettings(
	ctx context.Context, repository, scratch string, minor version.Minor,
) (Settings, error) {
	m, err := settingsModule(ctx, repository, scratch, minor)
	if err != nil {
		return nil, err
	}
	printed, err := m.run(ctx, "test", "-vet=off", "-run=^TestPrint$", "-v", "./settings/...")
	if err != nil {
		return nil, fmt.Errorf("asking the components of %s for their settings: %w", m.version, err)
	}
	read := make(Settings)
	for line := range strings.Lines(printed) {
		if setting, found := strings.CutPrefix(line, "setting "); found {
			component, line, _ := strings.Cut(strings.TrimSpace(setting), " ")
			read[settings.Component(component)] = append(read[settings.Component(component)], line)
		}
	}
	for _, component := range settings.Components() {
		if read[component] == nil {
			return nil, fmt.Errorf("%s %s has printed no settings", component, m.version)
		}
		slices.Sort(read[component])
	}
	return read, nil
}

// settingsModule returns the module minors with the requirements of a minor. One that has no file
// there is a copy in scratch, with the requirements of Kubernetes itself.
func settingsModule(
	ctx context.Context, repository, scratch string, minor version.Minor,
) (module, error) {
	at := slices.IndexFunc(cataloged, func(v string) bool {
		return version.MustParse(v).Minor() == minor
	})
	if at < 0 {
		return minorModule(ctx, repository, minor)
	}
	m := module{
		dir: filepath.Join(scratch, minor.String()), requirements: "go.mod",
		version: version.MustParse(cataloged[at]),
	}
	source := filepath.Join(repository, modulesDir, "minors", "settings")
	if err := os.CopyFS(filepath.Join(m.dir, "settings"), os.DirFS(source)); err != nil {
		return m, fmt.Errorf("copying programs: %w", err)
	}
	goMod, err := m.requireKubernetes(ctx, repository)
	if err != nil {
		return m, err
	}
	if err := os.WriteFile(filepath.Join(m.dir, "go.mod"), []byte(goMod), 0o600); err != nil {
		return m, fmt.Errorf("writing requirements: %w", err)
	}
	_, err = goCommand(ctx, m.dir, "mod", "tidy")
	return m, err
}

// staged finds the modules that are published from the repository of Kubernetes.
var staged = regexp.MustCompile(`(?m)^\s*(?:replace )?(k8s\.io/[a-z-]+) => \./staging/`)

// requireKubernetes returns a go.mod that requires Kubernetes, and its staged modules at the same
// version.
func (m module) requireKubernetes(ctx context.Context, repository string) (string, error) {
	name := kubernetes + "@" + m.version.String()
	file, err := goCommand(ctx, filepath.Join(repository, modulesDir, "minors"),
		"mod", "download", "-json", name)
	if err != nil {
		return "", err
	}
	path := regexp.MustCompile(`"GoMod": "(.*)"`).FindStringSubmatch(file)
	if path == nil {
		return "", fmt.Errorf("go mod download names no go.mod of %s", name)
	}
	content, err := os.ReadFile(path[1])
	if err != nil {
		return "", fmt.Errorf("reading the requirements of %s: %w", name, err)
	}
	lines := []string{
		"module github.com/windlass-dev/windlass/lab/kube/minors", "go 1.26.0",
		"require " + kubernetes + " " + m.version.String(),
	}
	library := "v0." + strings.TrimPrefix(m.version.String(), "v1.")
	for _, match := range staged.FindAllStringSubmatch(string(content), -1) {
		name := match[1]
		patch := cmp.Or(substitutes[name+" "+library], library)
		lines = append(lines, fmt.Sprintf("replace %s => %s %s", name, name, patch))
	}
	return strings.Join(lines, "\n") + "\n", nil
}

// EncodeCatalog returns the text of a catalog with the settings of some minors, as
// [settings.ParseCatalog] reads it.
func EncodeCatalog(byMinor map[uint32]Settings) string {
	rows := map[string]*catalogRow{}
	for minor, all := range byMinor {
		for component, lines := range all {
			for _, line := range lines {
				fields := strings.Fields(line)
				key := string(component) + " " + strings.Join(fields[:2], " ")
				if rows[key] == nil {
					rows[key] = &catalogRow{}
				}
				row := rows[key]
				row.known |= 1 << minor
				if len(fields) == 3 && fields[2] == "true" {
					row.on |= 1 << minor
				} else if len(fields) == 3 {
					row.off |= 1 << minor
				}
			}
		}
	}
	text := fmt.Sprintf("# Settings of Kubernetes by minor: see ParseCatalog. DO NOT EDIT: "+
		"go -C lab test ./kube -run TestCatalog -update writes it.\nminors %d-%d\n",
		slices.Min(slices.Collect(maps.Keys(byMinor))), slices.Max(slices.Collect(maps.Keys(byMinor))))
	return text + encodeRows(rows)
}

// catalogRow is the minors that know a setting, and lock it to true and to false: one bit each.
type catalogRow struct{ known, on, off uint64 }

func (r catalogRow) String() string {
	text := ranges(r.known)
	if r.on != 0 {
		text += " on=" + ranges(r.on)
	}
	if r.off != 0 {
		text += " off=" + ranges(r.off)
	}
	return text
}

// encodeRows writes one line for all components that have a setting in the same minors.
func encodeRows(rows map[string]*catalogRow) string {
	order := func(component string) int {
		return slices.Index(settings.Components(), settings.Component(component))
	}
	components := map[string][]string{}
	for key, row := range rows {
		component, setting, _ := strings.Cut(key, " ")
		line := setting + " " + row.String()
		components[line] = append(components[line], component)
	}
	lines := make([]string, 0, len(components))
	for line, of := range components {
		slices.SortFunc(of, func(a, b string) int { return cmp.Compare(order(a), order(b)) })
		names := strings.Join(of, ",")
		if len(of) == len(settings.Components())-1 && !slices.Contains(of, string(settings.Kubeadm)) {
			names = settings.AllServers
		}
		lines = append(lines, names+" "+line)
	}
	byText := func(a, b string) int {
		_, settingA, _ := strings.Cut(a, " ")
		_, settingB, _ := strings.Cut(b, " ")
		return cmp.Or(cmp.Compare(settingA, settingB), cmp.Compare(a, b))
	}
	slices.SortFunc(lines, byText)
	return strings.Join(lines, "\n") + "\n"
}

// ranges writes the minors whose bits are set, such as 28-31,33.
func ranges(set uint64) string {
	var parts []string
	for set != 0 {
		first := bits.TrailingZeros64(set)
		length := bits.TrailingZeros64(^(set >> first))
		set &^= (1<<length - 1) << first
		part := strconv.Itoa(first)
		if length > 1 {
			part += "-" + strconv.Itoa(first+length-1)
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ",")
}
