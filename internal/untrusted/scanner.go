package untrusted

// checkEvery is after how many bytes a scan asks whether it was canceled.
const checkEvery = 64 << 10

// Scanner counts the structure of JSON that arrives in pieces. It keeps one number per level and none
// of the text. It does not check the syntax: for text that is not JSON, the counts mean nothing, and
// what decodes the text refuses it. It is for one goroutine.
type Scanner struct {
	limits                Limits
	bytes, nodes, objects int
	// entries are the numbers of values in the objects and lists that have not ended.
	entries []int
	// checked is how many bytes there were when the scan last asked whether it was canceled.
	checked                   int
	quoted, escaping, literal bool
}

// NewScanner returns a Scanner that refuses what exceeds limits.
func NewScanner(limits Limits) *Scanner { return &Scanner{limits: limits} }

// Nodes returns the number of values so far. The key of an object counts as one until its colon
// arrives.
func (s *Scanner) Nodes() int { return s.nodes }

// Scan reads the next piece. The error is a *LimitError, or the one of Limits.Canceled. No piece may
// follow an error.
func (s *Scanner) Scan(piece []byte) error {
	for len(piece) > 0 {
		part := piece[:min(len(piece), checkEvery)]
		piece = piece[len(part):]
		if s.bytes += len(part); s.bytes > s.limits.Bytes {
			return &LimitError{Kind: Bytes, Max: s.limits.Bytes}
		}
		if s.checked == 0 || s.bytes-s.checked >= checkEvery {
			s.checked = s.bytes
			if err := s.limits.canceled(); err != nil {
				return err
			}
		}
		if err := s.scan(part); err != nil {
			return err
		}
	}
	return nil
}

func (s *Scanner) scan(part []byte) error {
	for _, c := range part {
		switch {
		case s.escaping:
			s.escaping = false
		case s.quoted:
			s.quoted, s.escaping = c != '"', c == '\\'
		case s.isNew(c):
			if err := s.addValue(c); err != nil {
				return err
			}
		default:
			s.end(c)
		}
	}
	return nil
}

// isNew reports whether a byte outside of strings begins a value or a key.
func (s *Scanner) isNew(c byte) bool {
	wasLiteral := s.literal
	s.literal = false
	switch c {
	case '{', '[', '"':
		return true
	case '}', ']', ':', ',', ' ', '\t', '\n', '\r':
		return false
	default:
		// A number, true, false or null.
		s.literal = true
		return !wasLiteral
	}
}

func (s *Scanner) addValue(c byte) error {
	if s.nodes++; s.nodes > s.limits.Nodes {
		return &LimitError{Kind: Nodes, Max: s.limits.Nodes}
	}
	if in := len(s.entries) - 1; in >= 0 {
		if s.entries[in]++; s.limits.Entries > 0 && s.entries[in] > s.limits.Entries {
			return &LimitError{Kind: Entries, Max: s.limits.Entries}
		}
	}
	switch c {
	case '"':
		s.quoted = true
	case '{', '[':
		if s.entries = append(s.entries, 0); len(s.entries) > s.limits.Depth {
			return &LimitError{Kind: Depth, Max: s.limits.Depth}
		}
		if c == '{' {
			s.objects++
		}
		if s.limits.Objects > 0 && s.objects > s.limits.Objects {
			return &LimitError{Kind: Objects, Max: s.limits.Objects}
		}
	}
	return nil
}

// end reads a byte that begins nothing.
func (s *Scanner) end(c byte) {
	in := len(s.entries) - 1
	switch c {
	case ':':
		// The string before it was a key.
		s.nodes--
		if in >= 0 {
			s.entries[in]--
		}
	case '}', ']':
		s.entries = s.entries[:max(in, 0)]
	}
}
