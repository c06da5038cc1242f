package cloudconfig

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// maxContent bounds the content of one file, in bytes. An API object, and so user data, is far smaller; only gzip exceeds it.
const maxContent = 32 << 20

type rawFile struct {
	Path        string `json:"path"`
	Owner       string `json:"owner"`
	Permissions string `json:"permissions"`
	Encoding    string `json:"encoding"`
	Content     string `json:"content"`
	Append      bool   `json:"append"`
}

var ownerPattern = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*(:[A-Za-z0-9_][A-Za-z0-9_.-]*)?$`)

func (f rawFile) parse() (File, error) {
	result := File{Owner: f.Owner, Append: f.Append}
	var err error
	if result.Path, err = absolute(f.Path); err != nil {
		return File{}, err
	}
	if f.Owner != "" && !ownerPattern.MatchString(f.Owner) {
		return File{}, fmt.Errorf("owner %q is not USER or USER:GROUP", f.Owner)
	}
	if result.Mode, err = parseMode(f.Permissions); err != nil {
		return File{}, err
	}
	result.Content, err = unpack(f.Content, f.Encoding)
	return result, err
}

// unpack undoes an encoding. The names are cloud-init's.
func unpack(content, encoding string) ([]byte, error) {
	data := []byte(content)
	base, zipped := false, false
	switch strings.ToLower(encoding) {
	case "", "text/plain":
	case "b64", "base64":
		base = true
	case "gz", "gzip":
		zipped = true
	case "gz+base64", "gzip+base64", "gz+b64", "gzip+b64":
		base, zipped = true, true
	default:
		return nil, fmt.Errorf("encoding %q is unknown", encoding)
	}
	if base {
		var err error
		if data, err = base64.StdEncoding.DecodeString(strings.Join(strings.Fields(content), "")); err != nil {
			return nil, fmt.Errorf("decoding base64: %w", err)
		}
	}
	if zipped {
		return unzip(data)
	}
	return data, nil
}

func unzip(data []byte) ([]byte, error) {
	reader, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("decoding gzip: %w", err)
	}
	result, err := io.ReadAll(io.LimitReader(reader, maxContent+1))
	if err != nil {
		return nil, fmt.Errorf("decoding gzip: %w", err)
	}
	if len(result) > maxContent {
		return nil, errors.New("decoding gzip: the content is larger than 32 MiB")
	}
	return result, nil
}
