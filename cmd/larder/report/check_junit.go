package report

import (
	"encoding/xml"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/larder-cli/larder/cmd/larder/ui"
)

// The parts of JUnit's XML that check writes: what GitLab documents and what Jenkins' junit step reads. Besides file and line of
// a test case, it conforms to the schema of Jenkins' xUnit plugin (junit-10.xsd).

type junitSuites struct {
	XMLName xml.Name `xml:"testsuites"`
	Name    string   `xml:"name,attr"`
	junitCounts
	Suites []junitSuite `xml:"testsuite"`
}

type junitCounts struct {
	Tests    int `xml:"tests,attr"`
	Failures int `xml:"failures,attr"`
	Errors   int `xml:"errors,attr"`
}

type junitSuite struct {
	Name string `xml:"name,attr"`
	junitCounts
	Skipped int         `xml:"skipped,attr"`
	Cases   []junitCase `xml:"testcase"`
}

type junitCase struct {
	Name    string        `xml:"name,attr"`
	Class   string        `xml:"classname,attr"`
	File    string        `xml:"file,attr,omitempty"`
	Line    string        `xml:"line,attr,omitempty"`
	Error   *junitProblem `xml:"error"`
	Failure *junitProblem `xml:"failure"`
	Skipped *junitProblem `xml:"skipped"`
}

type junitProblem struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr,omitempty"`
	Text    string `xml:",chardata"`
}

// junit returns the results as JUnit's XML: a suite for each root module, with a test case for its lock file and one for
// each provider. If the root module could not be checked, the test case of the lock file has the error.
func (d document) junit() string {
	all := junitSuites{Name: "larder check"}
	for _, m := range d.modules {
		s := d.suite(m)
		all.Tests, all.Failures, all.Errors = all.Tests+s.Tests, all.Failures+s.Failures, all.Errors+s.Errors
		all.Suites = append(all.Suites, s)
	}
	text, _ := xml.MarshalIndent(all, "", "  ") // always has XML
	return xml.Header + string(text) + "\n"
}

// suite returns the test suite of a root module.
func (d document) suite(m CheckedModule) junitSuite {
	s := junitSuite{Name: ui.Visible(m.Name)}
	names := append([]string{""}, m.Providers...) // the first one is the lock file
	for _, f := range m.Findings {
		names = append(names, f.Provider)
	}
	for _, provider := range unique(names) {
		c := junitCase{Name: provider, Class: s.Name}
		var found []Finding
		for _, f := range m.Findings {
			if f.Provider == provider {
				found = append(found, f)
			}
		}
		if provider == "" {
			c.Name = filepath.Base(m.LockFile)
			c.Error = d.fail(&c, m.Errors)
		}
		c.Failure = d.find(&c, found)
		i := slices.IndexFunc(m.Unchecked, func(u Finding) bool { return u.Provider == provider })
		switch {
		case c.Error != nil:
			s.Errors++
		case c.Failure != nil:
			s.Failures++
		case i >= 0:
			c.Skipped = &junitProblem{Message: d.shorten(m.Unchecked[i].Text)}
			s.Skipped++
		}
		s.Cases = append(s.Cases, c)
	}
	s.Tests = len(s.Cases)
	return s
}

// fail returns the error of a test case, if there is one, and sets its place.
func (d document) fail(c *junitCase, faults []Finding) *junitProblem {
	if len(faults) == 0 {
		return nil
	}
	texts := make([]string, len(faults))
	for i, f := range faults {
		texts[i] = strings.TrimPrefix(d.place(f.Place())+": ", ": ") + d.shorten(f.Text)
	}
	d.at(c, faults[0].Place())
	return &junitProblem{texts[0], "error", strings.Join(texts, "\n")}
}

// find returns the failure of a test case, if there are findings, and sets its place.
func (d document) find(c *junitCase, findings []Finding) *junitProblem {
	if len(findings) == 0 {
		return nil
	}
	var texts, rules []string
	for _, f := range findings {
		texts = append(texts, d.place(f.Place())+": "+d.full(f))
		rules = append(rules, f.Kind)
	}
	d.at(c, findings[0].Place())
	return &junitProblem{d.shorten(findings[0].Message()), strings.Join(unique(rules), ","), strings.Join(texts, "\n")}
}

// place returns a place as text.
func (d document) place(p Place) string {
	if p.File == "" {
		return ""
	}
	return ui.Visible(Place{d.path(p.File), p.Line}.String())
}

// at sets the place of a test case.
func (d document) at(c *junitCase, p Place) {
	if p.File == "" {
		return
	}
	if c.File = ui.Visible(d.path(p.File)); p.Line > 0 {
		c.Line = strconv.Itoa(p.Line)
	}
}
