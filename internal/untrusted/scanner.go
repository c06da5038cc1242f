package untrusted

// checkEvery is after how many bytes a scan asks whether it was canceled.
const checkEvery = 64 << 10

// Scanner counts the structure of JSON that arrives in pieces. It keeps one bit per level and none of
// the text. It does not check the syntax: for text that is not JSON, the counts mean nothing, and
// what decodes the text refuses it. It is for one goroutine.
type Scanner struct {
	limits Limits
	bytes  int
	nodes  int
	depth  int
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
		default:
			s.count(c)
			if s.nodes > s.limits.Nodes {
				return &LimitError{Kind: Nodes, Max: s.limits.Nodes}
			}
			if s.depth > s.limits.Depth {
				return &LimitError{Kind: Depth, Max: s.limits.Depth}
			}
		}
	}
	return nil
}

// count reads a byte outside of strings.
func (s *Scanner) count(c byte) {
	wasLiteral := s.literal
	s.literal = false
	switch c {
	case '{', '[':
		s.nodes++
		s.depth++
	case '}', ']':
		s.depth--
	case '"':
		s.nodes++
		s.quoted = true
	case ':':
		// The string before it was a key.
		s.nodes--
	case ',', ' ', '\t', '\n', '\r':
	default:
		// A number, true, false or null.
		s.literal = true
		if !wasLiteral {
			s.nodes++
		}
	}
}
