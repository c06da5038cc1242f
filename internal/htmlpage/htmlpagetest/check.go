// Package htmlpagetest checks pages of package htmlpage in tests.
package htmlpagetest

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// Check reports what is wrong with a page as a document: elements that no template has, attributes that could do something, numbers that are none.
func Check(page string) error {
	decoder := xml.NewDecoder(strings.NewReader(page))
	decoder.Strict, decoder.AutoClose, decoder.Entity = false, []string{"meta", "br"}, xml.HTMLEntity
	var open []string
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			if len(open) > 0 {
				return fmt.Errorf("%q are not closed", open)
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("no document: %w", err)
		}
		switch element := token.(type) {
		case xml.StartElement:
			open = append(open, element.Name.Local)
			if err := checkElement(element); err != nil {
				return err
			}
		case xml.EndElement:
			if len(open) == 0 || open[len(open)-1] != element.Name.Local {
				return fmt.Errorf("</%s> closes %q", element.Name.Local, open)
			}
			open = open[:len(open)-1]
		}
	}
}

const knownElements = " html head meta title style body svg defs pattern rect main header p h1 h2 h3 br div dl dt dd section ul ol li figure figcaption g line use text path small table thead tbody tr th td details summary "

const knownAttributes = " lang charset http-equiv content name class width height aria-hidden aria-label id patternUnits patternTransform role x x1 x2 y y1 y2 dy d href text-anchor viewBox preserveAspectRatio rx tabindex scope open "

// noNumber is what a number must not be printed as. Infinity begins in the way Go prints it.
var noNumber = regexp.MustCompile(`NaN|Inf|e[+-]\d`)

func checkElement(element xml.StartElement) error {
	if !strings.Contains(knownElements, " "+element.Name.Local+" ") {
		return fmt.Errorf("an element <%s>", element.Name.Local)
	}
	for _, a := range element.Attr {
		if !strings.Contains(knownAttributes, " "+a.Name.Local+" ") {
			return fmt.Errorf("<%s> has an attribute %s=%q", element.Name.Local, a.Name.Local, a.Value)
		}
		switch a.Name.Local {
		case "href":
			if !strings.HasPrefix(a.Value, "#") {
				return fmt.Errorf("a reference to %q", a.Value)
			}
		case "x", "x1", "x2", "y", "y1", "y2", "width", "height", "d":
			if noNumber.MatchString(a.Value) || strings.Contains(a.Value, "-") {
				return fmt.Errorf("<%s> has %s=%q", element.Name.Local, a.Name.Local, a.Value)
			}
		}
	}
	return nil
}
