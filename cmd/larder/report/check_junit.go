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
	XMLName  xml.Name     `xml:"testsuites"`
	Name     string       `xml:"name,attr"`
	Tests    int          `xml:"tests,attr"`
	Failures int          `xml:"failures,attr"`
	Errors   int          `xml:"errors,attr"`
	Suites   []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Errors   int         `xml:"errors,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Cases    []junitCase `xml:"testcase"`
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
		if provider == "" {
			c.Name = filepath.Base(m.LockFile)
			d.fail(&c, m.Errors)
		}
		var found []CheckFinding
		for _, f := range m.Findings {
			if f.Provider == provider {
				found = append(found, f)
			}
		}
		d.find(&c, found)
		i := slices.IndexFunc(m.Unchecked, func(u Unchecked) bool { return u.Provider == provider })
		if i >= 0 && c.Failure == nil && c.Error == nil {
			c.Skipped = &junitProblem{Message: d.shorten(m.Unchecked[i].Text)}
		}
		s.add(c)
	}
	return s
}

// fail sets the error of a test case, unless there is none.
func (d document) fail(c *junitCase, faults []Fault) {
	if len(faults) == 0 {
		return
	}
	var texts []string
	for _, f := range faults {
		text := d.shorten(f.Text)
		if f.File != "" {
			text = d.place(f.Place) + ": " + text
		}
		texts = append(texts, text)
	}
	d.at(c, faults[0].Place)
	c.Error = &junitProblem{texts[0], "error", strings.Join(texts, "\n")}
}

// find sets the failure of a test case, unless there are no findings.
func (d document) find(c *junitCase, findings []CheckFinding) {
	if len(findings) == 0 {
		return
	}
	var texts, rules []string
	for _, f := range findings {
		texts = append(texts, d.place(f.Places[0].Place)+": "+d.full(f))
		rules = append(rules, f.Rule)
	}
	d.at(c, findings[0].Places[0].Place)
	c.Failure = &junitProblem{d.shorten(findings[0].Message()), strings.Join(unique(rules), ","), strings.Join(texts, "\n")}
}

// place returns a place as text.
func (d document) place(p Place) string { return ui.Visible(Place{d.path(p.File), p.Line}.String()) }

// at sets the place of a test case.
func (d document) at(c *junitCase, p Place) {
	if p.File == "" {
		return
	}
	if c.File = ui.Visible(d.path(p.File)); p.Line > 0 {
		c.Line = strconv.Itoa(p.Line)
	}
}

// add adds and counts a test case.
func (s *junitSuite) add(c junitCase) {
	s.Cases = append(s.Cases, c)
	s.Tests++
	switch {
	case c.Error != nil:
		s.Errors++
	case c.Failure != nil:
		s.Failures++
	case c.Skipped != nil:
		s.Skipped++
	}
}
