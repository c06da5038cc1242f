package cover

import "fmt"

// Error says whose answer is wrong, where, and what would be right.
func (e *UpdaterError) Error() string {
	where := ""
	if e.Pointer.Path != "" {
		where = fmt.Sprintf(" at %s of the %s", e.Pointer.Path, e.Pointer.Part)
	}
	if e.Err != nil {
		return fmt.Sprintf("updater %q: %s%s: %v", e.Updater, e.Problem, where, e.Err)
	}
	return fmt.Sprintf("updater %q: %s%s", e.Updater, e.Problem, where)
}

// Unwrap returns the cause.
func (e *UpdaterError) Unwrap() error { return e.Err }
