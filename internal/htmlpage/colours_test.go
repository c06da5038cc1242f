package htmlpage

import (
	"fmt"
	"image/color"
	"math"
	"testing"
)

// lab is a colour in CIELAB, where distances are about those that are seen. Light is linear, from 0 to 1.
func lab(light [3]float64) [3]float64 {
	x := (0.4124*light[0] + 0.3576*light[1] + 0.1805*light[2]) / 0.9505
	y := 0.2126*light[0] + 0.7152*light[1] + 0.0722*light[2]
	z := (0.0193*light[0] + 0.1192*light[1] + 0.9505*light[2]) / 1.089
	f := func(t float64) float64 {
		if t > 0.008856 {
			return math.Cbrt(t)
		}
		return 7.787*t + 16.0/116
	}
	return [3]float64{116*f(y) - 16, 500 * (f(x) - f(y)), 200 * (f(y) - f(z))}
}

// seenAs returns light as people see it: by all cones, or without those for red or green. In linear light the two that are left give the same for both.
func seenAs(kind string, c [3]float64) [3]float64 {
	switch kind {
	case "without red":
		yellow := max(0.11238*c[0]+0.88762*c[1], 0)
		return [3]float64{yellow, yellow, max(0.00401*c[0]-0.00401*c[1]+c[2], 0)}
	case "without green":
		yellow := max(0.29275*c[0]+0.70725*c[1], 0)
		return [3]float64{yellow, yellow, max(-0.02234*c[0]+0.02234*c[1]+c[2], 0)}
	default:
		return c
	}
}

// Versions can be told apart by everybody, on light and on dark pages, for as many as an upgrade has.
func TestVersionsCanBeToldApart(t *testing.T) {
	const apart = 12
	for name, anchors := range map[string][]rgb{"light": lightRamp(), "dark": darkRamp()} {
		for n := 2; n <= 6; n++ {
			var colours [][3]float64
			for _, hex := range ramp(anchors, n) {
				var c color.RGBA
				if _, err := fmt.Sscanf(hex, "#%02x%02x%02x", &c.R, &c.G, &c.B); err != nil {
					t.Fatalf("%q is no colour: %v", hex, err)
				}
				colours = append(colours, [3]float64{linear(c.R), linear(c.G), linear(c.B)})
			}
			for _, kind := range []string{"all cones", "without red", "without green"} {
				for i, a := range colours {
					for j, b := range colours[:i] {
						x, y := lab(seenAs(kind, a)), lab(seenAs(kind, b))
						if far := math.Hypot(math.Hypot(x[0]-y[0], x[1]-y[1]), x[2]-y[2]); far < apart {
							t.Errorf("%s, %d versions, %s: %d and %d differ by %.1f only", name, n, kind, j, i, far)
						}
					}
				}
			}
		}
	}
}

// linear is the light of a channel of sRGB, from 0 to 1.
func linear(channel uint8) float64 {
	c := float64(channel) / 255
	if c <= 0.04045 {
		return c / 12.92
	}
	return math.Pow((c+0.055)/1.055, 2.4)
}
