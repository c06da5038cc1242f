package cloudconfig

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

type rawUser struct {
	Name              string   `json:"name"`
	Gecos             string   `json:"gecos"`
	Groups            any      `json:"groups"`
	HomeDir           string   `json:"homedir"`
	Inactive          any      `json:"inactive"`
	LockPasswd        *bool    `json:"lock_passwd"`
	Passwd            string   `json:"passwd"`
	PrimaryGroup      string   `json:"primary_group"`
	Shell             string   `json:"shell"`
	SSHAuthorizedKeys []string `json:"ssh_authorized_keys"`
	Sudo              any      `json:"sudo"`
}

var namePattern = regexp.MustCompile(`^[a-z_][a-z0-9_-]*$`)

func (u rawUser) parse() (User, error) {
	result := User{
		Name: u.Name, Gecos: u.Gecos, HomeDir: u.HomeDir, Shell: u.Shell, PrimaryGroup: u.PrimaryGroup, Passwd: u.Passwd,
		SSHAuthorizedKeys: u.SSHAuthorizedKeys, LockPasswd: u.LockPasswd == nil || *u.LockPasswd,
	}
	var err error
	if result.Groups, err = words("groups", u.Groups); err != nil {
		return User{}, err
	}
	if result.Sudo, err = lines("sudo", u.Sudo); err != nil {
		return User{}, err
	}
	if result.Inactive, err = flag("inactive", u.Inactive); err != nil {
		return User{}, err
	}
	return result, result.check()
}

// check refuses what would mean something else in a file of users, or in a script.
func (u User) check() error {
	if u.Name == "" {
		return errors.New("the user has no name")
	}
	for _, name := range append([]string{u.Name, u.PrimaryGroup}, u.Groups...) {
		if name != "" && !namePattern.MatchString(name) {
			return fmt.Errorf("%q is no name of a user or group", name)
		}
	}
	for _, p := range []string{u.HomeDir, u.Shell} {
		if _, err := absolute(p); p != "" && err != nil {
			return fmt.Errorf("%q: %w", p, err)
		}
	}
	if strings.ContainsAny(u.Gecos+u.Passwd, ":\n") {
		return errors.New("gecos and passwd must not contain a colon or a line break")
	}
	return nil
}

// words reads a list, or a string with commas.
func words(field string, raw any) ([]string, error) {
	if text, ok := raw.(string); ok {
		return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' }), nil
	}
	return lines(field, raw)
}

// lines reads a list, or one string.
func lines(field string, raw any) ([]string, error) {
	switch raw := raw.(type) {
	case nil:
		return nil, nil
	case string:
		return []string{raw}, nil
	case []any:
		var result []string
		for _, entry := range raw {
			text, ok := entry.(string)
			if !ok {
				return nil, fmt.Errorf("%s has %v: it must be a string", field, entry)
			}
			result = append(result, text)
		}
		return result, nil
	case bool:
		if !raw {
			return nil, nil // sudo: false
		}
	}
	return nil, fmt.Errorf("%s is %v: it must be a string or a list", field, raw)
}

func flag(field string, raw any) (bool, error) {
	switch raw := raw.(type) {
	case nil:
		return false, nil
	case bool:
		return raw, nil
	}
	return false, fmt.Errorf("%s is %v: it must be true or false", field, raw)
}
