package htmlpage

import (
	"fmt"
	"html/template"
	"math"
	"strings"
)

// rgb is a colour.
type rgb [3]float64

// The colours of versions, from the oldest to the newest. The first is that of machines where they come from. The others differ in lightness as well as in hue, so that they
// can be told apart without seeing colours; the newest stands out most from its background.
func lightRamp() []rgb {
	return []rgb{{0xb4, 0xba, 0xc2}, {0xe3, 0xae, 0x2b}, {0x4f, 0xa8, 0x7c}, {0x2b, 0x7c, 0xa3}, {0x33, 0x37, 0x8c}}
}

func darkRamp() []rgb {
	return []rgb{{0x59, 0x61, 0x6b}, {0x77, 0x70, 0xd6}, {0x3f, 0x9d, 0xc4}, {0x62, 0xc7, 0x97}, {0xf3, 0xd5, 0x66}}
}

// maxColours is how many versions have one of their own. There are hardly ever more minors between two releases.
const maxColours = 16

// ramp returns n colours: the first, and the others evenly spread over the rest.
func ramp(anchors []rgb, n int) []string {
	colours := make([]string, 0, n)
	for i := range n {
		if i == 0 {
			colours = append(colours, anchors[0].hex())
			continue
		}
		last := len(anchors) - 2
		at := float64(last)
		if n > 2 {
			at = float64(i-1) / float64(n-2) * float64(last)
		}
		low := min(int(at), last-1)
		colours = append(colours, anchors[1+low].mix(anchors[2+low], at-float64(low)).hex())
	}
	return colours
}

func (c rgb) mix(d rgb, much float64) rgb {
	var mixed rgb
	for i := range mixed {
		mixed[i] = c[i] + (d[i]-c[i])*much
	}
	return mixed
}

func (c rgb) hex() string {
	return fmt.Sprintf("#%02x%02x%02x", int(math.Round(c[0])), int(math.Round(c[1])), int(math.Round(c[2])))
}

// ColourStyle defines the classes v0, v1 and so on of n versions.
func ColourStyle(n int) template.CSS {
	n = min(n, maxColours)
	var css strings.Builder
	write := func(anchors []rgb) {
		for i, c := range ramp(anchors, n) {
			fmt.Fprintf(&css, "--v%d:%s;", i, c)
		}
	}
	css.WriteString(":root{")
	write(lightRamp())
	css.WriteString("}@media screen and (prefers-color-scheme:dark){:root{")
	write(darkRamp())
	css.WriteString("}}")
	for i := range n {
		fmt.Fprintf(&css, ".v%d{fill:var(--v%d);stroke:var(--v%d)}", i, i, i)
	}
	return template.CSS(css.String()) //nolint:gosec // Nothing in it comes from outside.
}

// ColourClass is the class of a version, given its place among all. One that has none is drawn as the oldest is.
func ColourClass(i int) string {
	return fmt.Sprintf("v%d", min(max(i, 0), maxColours-1))
}
