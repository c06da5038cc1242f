package cloudconfig

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// Instance is what a template can ask about its host.
type Instance struct {
	// Hostname is ds.meta_data.local_hostname.
	Hostname string
	// ID is ds.meta_data.instance_id.
	ID string
}

// Config is the user data of one host. Paths are absolute and clean.
type Config struct {
	// BootCommands run at every boot, before everything else.
	BootCommands []Command
	Files        []File
	Users        []User
	// RunCommands run once, after everything else, as one shell script.
	RunCommands []Command
}

// Command is one line of a shell script.
type Command string

// File is one entry of write_files.
type File struct {
	Path string
	// Owner is USER, USER:GROUP, or empty for root:root.
	Owner string
	// Mode is as chmod takes it.
	Mode    uint32
	Content []byte
	// Append adds to what the file contains.
	Append bool
}

// User is one entry of users.
type User struct {
	Name, Gecos, HomeDir, Shell, PrimaryGroup string
	Groups                                    []string
	// Passwd is a hash, as in /etc/shadow.
	Passwd string
	// Sudo are the user's rules in sudoers.
	Sudo              []string
	SSHAuthorizedKeys []string
	Inactive          bool
	// LockPasswd forbids logins with a password.
	LockPasswd bool
}

const (
	header         = "#cloud-config"
	templateHeader = "## template:"
	defaultMode    = 0o644
)

// Parse reads user data. It returns an error, and no part of the configuration, for what a host could not carry out.
func Parse(data []byte, instance Instance) (Config, error) {
	text, err := render(data, instance)
	if err != nil {
		return Config{}, err
	}
	var raw rawConfig
	if err := decode([]byte(text), &raw); err != nil {
		return Config{}, err
	}
	var c Config
	if c.BootCommands, err = commands("bootcmd", raw.BootCommands); err != nil {
		return Config{}, err
	}
	if c.RunCommands, err = commands("runcmd", raw.RunCommands); err != nil {
		return Config{}, err
	}
	for i, file := range raw.Files {
		parsed, err := file.parse()
		if err != nil {
			return Config{}, fmt.Errorf("write_files[%d] (%q): %w", i, file.Path, err)
		}
		c.Files = append(c.Files, parsed)
	}
	for i, user := range raw.Users {
		parsed, err := user.parse()
		if err != nil {
			return Config{}, fmt.Errorf("users[%d] (%q): %w", i, user.Name, err)
		}
		c.Users = append(c.Users, parsed)
	}
	return c, nil
}

// render checks the header and fills in the template.
func render(data []byte, instance Instance) (string, error) {
	text := string(bytes.TrimSpace(data))
	if strings.HasPrefix(text, "{") {
		return "", errors.New("the user data is Ignition, which hosts of this provider cannot run. " +
			"Fix: remove spec.format of the KubeadmConfig, or set it to cloud-config")
	}
	engine, body, isTemplate := "", text, false
	if strings.HasPrefix(text, templateHeader) {
		isTemplate = true
		engine, body, _ = strings.Cut(text, "\n")
		engine = strings.TrimSpace(strings.TrimPrefix(engine, templateHeader))
	}
	if first, _, _ := strings.Cut(body, "\n"); strings.TrimSpace(first) != header {
		return "", fmt.Errorf("the user data is no cloud-config: its first line is not %q", header)
	}
	if !isTemplate {
		return body, nil
	}
	if engine != "jinja" {
		return "", fmt.Errorf("the template engine %q is unknown: only jinja is supported", engine)
	}
	return substitute(body, instance)
}

var expression = regexp.MustCompile(`\{\{(.*?)\}\}`)

// substitute replaces the variables of a template. Other parts of Jinja's language are an error.
func substitute(text string, instance Instance) (string, error) {
	for _, opening := range []string{"{%", "{#"} {
		if strings.Contains(text, opening) {
			return "", fmt.Errorf("the template contains %q: only variables are supported in templates", opening)
		}
	}
	values := map[string]string{
		"ds.meta_data.local_hostname": instance.Hostname, "v1.local_hostname": instance.Hostname, "local_hostname": instance.Hostname,
		"ds.meta_data.hostname":    instance.Hostname,
		"ds.meta_data.instance_id": instance.ID, "v1.instance_id": instance.ID, "instance_id": instance.ID,
	}
	var unknown []string
	result := expression.ReplaceAllStringFunc(text, func(match string) string {
		name := strings.TrimSpace(match[2 : len(match)-2])
		value, ok := values[name]
		if !ok {
			unknown = append(unknown, name)
		}
		return value
	})
	if len(unknown) > 0 {
		return "", fmt.Errorf("the template asks for %q: hosts know %s",
			strings.Join(unknown, `", "`), strings.Join(slices.Sorted(maps.Keys(values)), ", "))
	}
	if strings.Contains(result, "{{") {
		return "", errors.New(`the template has "{{" without "}}"`)
	}
	return result, nil
}

type rawConfig struct {
	BootCommands []any     `json:"bootcmd"`
	Files        []rawFile `json:"write_files"`
	Users        []rawUser `json:"users"`
	RunCommands  []any     `json:"runcmd"`
	// NTP is ignored.
	NTP any `json:"ntp"`
}

// decode reads YAML. A module that rawConfig does not have is an error that names it.
func decode(data []byte, into *rawConfig) error {
	var modules map[string]any
	if err := yaml.Unmarshal(data, &modules); err != nil {
		return fmt.Errorf("reading the cloud-config: %w", err)
	}
	known := []string{"bootcmd", "write_files", "users", "runcmd", "ntp"}
	for _, module := range slices.Sorted(maps.Keys(modules)) {
		if !slices.Contains(known, module) {
			return fmt.Errorf("the cloud-config has %s, which hosts of this provider cannot do. "+
				"Fix: remove it from the KubeadmConfig", fieldOf(module))
		}
	}
	if err := yaml.UnmarshalStrict(data, into); err != nil {
		return fmt.Errorf("reading the cloud-config: %w", err)
	}
	return nil
}

// fieldOf names a module as cloud-config and KubeadmConfig have it.
func fieldOf(module string) string {
	switch module {
	case "disk_setup":
		return "disk_setup (diskSetup.partitions)"
	case "fs_setup":
		return "fs_setup (diskSetup.filesystems)"
	}
	return module
}

// commands makes lines of a shell script, as cloud-init does: a string is one, a list is a command and its arguments.
func commands(module string, raw []any) ([]Command, error) {
	var result []Command
	for i, entry := range raw {
		switch entry := entry.(type) {
		case nil:
		case string:
			result = append(result, Command(entry))
		case []any:
			words := make([]string, len(entry))
			for j, word := range entry {
				words[j] = quote(fmt.Sprint(word))
			}
			result = append(result, Command(strings.Join(words, " ")))
		default:
			return nil, fmt.Errorf("%s[%d] is %v: it must be a string or a list", module, i, entry)
		}
	}
	return result, nil
}

// absolute checks a path and cleans it.
func absolute(p string) (string, error) {
	if !path.IsAbs(p) || strings.ContainsAny(p, "\x00\n") {
		return "", errors.New("the path is not absolute")
	}
	if p = path.Clean(p); p == "/" {
		return "", errors.New("the path is the root folder")
	}
	return p, nil
}

func parseMode(permissions string) (uint32, error) {
	if permissions == "" {
		return defaultMode, nil
	}
	mode, err := strconv.ParseUint(strings.TrimPrefix(permissions, "0o"), 8, 12)
	if err != nil {
		return 0, fmt.Errorf("permissions %q are no octal number up to 7777", permissions)
	}
	return uint32(mode), nil
}
