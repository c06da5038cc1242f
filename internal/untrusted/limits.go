package untrusted

import (
	"context"
	"fmt"
)

// Limits bound one document. A limit of 0 accepts nothing.
type Limits struct {
	// Bytes bounds the length of the input. For YAML it also bounds the text of its scalars once all
	// aliases are expanded.
	Bytes int
	// Depth bounds how deep objects and lists nest. A scalar has depth 0, [] has 1.
	Depth int
	// Nodes bounds the number of values: objects, lists and scalars, without keys. Each use of a YAML
	// alias counts as the whole value that it names.
	Nodes int
	// Objects bounds the number of objects, and Entries that of the values in each list or object. 0
	// sets no limit beside Nodes. Only JSON is checked for them: small values can become large structs.
	Objects, Entries int
	// Canceled is called while the input is read, at least once every 64 KiB. An error of it ends the
	// parse. It may be nil. Use Until to set it.
	Canceled func() error
}

// Limits of what the API server stores.
var (
	// Object is for whole objects: etcd stores 1.5 MiB of one, and JSON writes some characters in six
	// bytes. The patch library reads what it descends into again at each level, so that no object may
	// nest as deep as encoding/json permits.
	Object = Limits{Bytes: 3 << 20, Depth: 128, Nodes: 20_000}
	// Annotation is for the value of an annotation. An object has 256 KiB of them at most.
	Annotation = Limits{Bytes: 256 << 10, Depth: 32, Nodes: 20_000}
)

// Until returns limits whose parses end with an error once ctx is done.
func (l Limits) Until(ctx context.Context) Limits {
	l.Canceled = ctx.Err
	return l
}

func (l Limits) canceled() error {
	if l.Canceled == nil {
		return nil
	}
	if err := l.Canceled(); err != nil {
		return fmt.Errorf("the parse was canceled: %w", err)
	}
	return nil
}

// Kind is what a limit counts.
type Kind string

// The kinds of limits, as errors name them.
const (
	Bytes   Kind = "bytes"
	Depth   Kind = "levels"
	Nodes   Kind = "values"
	Objects Kind = "objects"
	Entries Kind = "entries in one list or object"
)

// LimitError reports an input that exceeds a limit. It has none of the input's text.
type LimitError struct {
	Kind Kind
	Max  int
}

// Error says which limit was exceeded, and what a person can do.
func (e *LimitError) Error() string {
	if e.Kind == Depth {
		return fmt.Sprintf("it nests deeper than %d levels. Fix: make it flatter", e.Max)
	}
	return fmt.Sprintf("it has more than %d %s. Fix: make it smaller", e.Max, e.Kind)
}

// SyntaxError reports an input that is not of its format. It has none of the input's text, which may
// be secret.
type SyntaxError struct {
	Problem string
}

// Error says what is wrong.
func (e *SyntaxError) Error() string { return e.Problem }
