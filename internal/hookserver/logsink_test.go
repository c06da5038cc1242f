package hookserver_test

import "github.com/go-logr/logr"

// recordingSink is a logr.LogSink that keeps the messages. It is for one goroutine.
type recordingSink struct{ lines *[]string }

func (*recordingSink) Init(logr.RuntimeInfo)                  {}
func (*recordingSink) Enabled(int) bool                       { return true }
func (s *recordingSink) Info(_ int, message string, _ ...any) { *s.lines = append(*s.lines, message) }
func (s *recordingSink) Error(_ error, message string, _ ...any) {
	*s.lines = append(*s.lines, "ERROR "+message)
}
func (s *recordingSink) WithValues(...any) logr.LogSink { return s }
func (s *recordingSink) WithName(string) logr.LogSink   { return s }
