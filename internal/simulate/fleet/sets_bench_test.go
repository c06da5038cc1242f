package fleet

import "testing"

// BenchmarkScaleSets is one look at a group in the middle of an upgrade in place.
func BenchmarkScaleSets(b *testing.B) {
	s := modelled()
	c := counted{desired: 100, waiting: 50, fresh: 41, changing: changing{updating: 9}, unavailable: 10, inPlace: true}
	g := c.group()
	before := g.sets
	for b.Loop() {
		g.sets = before
		if m := s.scaleSets(g); m.Update != 1 {
			b.Fatal(m)
		}
	}
}
