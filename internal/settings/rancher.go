package settings

import (
	"maps"
	"slices"
	"strings"
)

// RancherKeys are the keys of the configuration of RKE2 and K3s whose values are arguments for a
// component, sorted.
func RancherKeys() []string { return slices.Sorted(maps.Keys(rancherKeys)) }

// RancherComponent returns the component that gets the arguments of a key; empty for other keys.
func RancherComponent(key string) Component { return rancherKeys[key] }

var rancherKeys = map[string]Component{
	"kube-apiserver-arg":          APIServer,
	"kube-controller-manager-arg": ControllerManager,
	// K3s has the older name, too.
	"kube-controller-arg": ControllerManager,
	"kube-scheduler-arg":  Scheduler,
	KubeletArgKey:         Kubelet,
	ProxyArgKey:           Proxy,
}

// The keys that count on every node. The others count on servers.
const (
	KubeletArgKey = "kubelet-arg"
	ProxyArgKey   = "kube-proxy-arg"
)

// ProfileKey is the key of RKE2's profile, which is no argument for a component.
const ProfileKey = "profile"

// The keys of RKE2 and K3s that are no arguments for components, and that known risks depend on.
const (
	DisableKey           = "disable"
	FlannelKey           = "flannel-backend"
	IngressControllerKey = "ingress-controller"
	DefaultRegistryKey   = "system-default-registry"
	PrivateRegistryKey   = "private-registry"
)

// otherKeys are the keys in RancherLists that are no arguments for components.
var otherKeys = []string{
	ProfileKey, DisableKey, FlannelKey, IngressControllerKey, DefaultRegistryKey, PrivateRegistryKey,
}

// Word is an argument for a component, as people write it, and what gives it.
type Word struct{ Text, From string }

// RancherLists are the arguments that RKE2 or K3s gets for components, by key, and the other keys that
// count here, such as RKE2's profile. Make one with [MergeRancher].
type RancherLists map[string][]Word

// RancherFile is a configuration file of RKE2 or K3s.
type RancherFile struct {
	Path    string
	Content map[string]any
}

// MergeRancher merges files in the order in which RKE2 and K3s read them. A key replaces the value
// of the files before, unless it ends in "+": then it adds to that. If a file has both, the latter
// is added, although its order counts for RKE2 and K3s.
func MergeRancher(files []RancherFile) RancherLists {
	lists := RancherLists{}
	for _, file := range files {
		for _, key := range slices.Concat(RancherKeys(), otherKeys) {
			if value, found := file.Content[key]; found {
				lists[key] = wordsFrom(file.Path, value)
			}
			if value, found := file.Content[key+"+"]; found {
				lists[key] = slices.Concat(lists[key], wordsFrom(file.Path, value))
			}
		}
	}
	return lists
}

func wordsFrom(from string, value any) []Word {
	var words []Word
	for _, text := range wordsOf(value) {
		words = append(words, Word{Text: text, From: from})
	}
	return words
}

// WithArguments returns the lists with arguments of the command line, as KEY=WORD or --KEY=WORD.
// They come after those of files. Others are left out.
func (l RancherLists) WithArguments(from string, arguments []string) RancherLists {
	all := maps.Clone(l)
	for _, argument := range arguments {
		key, word, _ := strings.Cut(strings.TrimLeft(argument, "-"), "=")
		if _, known := rancherKeys[key]; known || slices.Contains(otherKeys, key) {
			all[key] = append(slices.Clip(all[key]), Word{Text: word, From: from})
		}
	}
	return all
}

// Uses returns the settings that components of a node get. An agent runs a kubelet and a proxy
// only, and ignores the arguments for other components.
func (l RancherLists) Uses(server bool) []Use {
	var uses []Use
	for _, key := range slices.Sorted(maps.Keys(l)) {
		isAgents := key == KubeletArgKey || key == ProxyArgKey
		if slices.Contains(otherKeys, key) || !server && !isAgents {
			continue
		}
		for _, word := range l[key] {
			place := Place{Object: word.From, Path: key}
			uses = append(uses, FromWords(place, rancherKeys[key], []string{word.Text})...)
		}
	}
	return uses
}

// Values returns the words of a key, without commas: a word can be a list.
func (l RancherLists) Values(key string) []string {
	var values []string
	for _, word := range l[key] {
		for value := range strings.SplitSeq(word.Text, ",") {
			values = append(values, strings.TrimSpace(value))
		}
	}
	return values
}

// Profile returns the profile of a node of RKE2 if some version rejects it. The last one counts.
func (l RancherLists) Profile() []Use {
	words := l[ProfileKey]
	if len(words) == 0 {
		return nil
	}
	last := words[len(words)-1]
	return profileUses(Place{Object: last.From, Path: ProfileKey}, last.Text)
}
