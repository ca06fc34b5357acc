package install

import (
	"cmp"
	"encoding/xml"
	"path/filepath"
	"slices"
	"strings"

	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/ui"
)

// The parts of JUnit's XML that check writes: what GitLab documents and what Jenkins' junit step reads. Besides file
// and line of a test case, it conforms to the schema of Jenkins' xUnit plugin (junit-10.xsd).

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
	Line    int           `xml:"line,attr,omitempty"`
	Error   *junitProblem `xml:"error"`
	Failure *junitProblem `xml:"failure"`
	Skipped *junitProblem `xml:"skipped"`
}

type junitProblem struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr,omitempty"`
	Text    string `xml:",chardata"`
}

// junit returns the results as JUnit's XML: a suite for each root module, with a test case for its lock file and one
// for each provider. If the root module could not be checked, the test case of the lock file has the error.
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
func (d document) suite(m checkResult) junitSuite {
	s := junitSuite{Name: ui.Visible(m.Name)}
	names := append([]string{""}, m.Providers...) // the first one is the lock file
	for _, f := range m.Findings {
		names = append(names, f.Provider)
	}
	for _, provider := range report.Unique(names) {
		of := func(all []report.Finding) []report.Finding {
			return slices.DeleteFunc(slices.Clone(all), func(f report.Finding) bool { return f.Provider != provider })
		}
		c := junitCase{Name: provider, Class: s.Name}
		if provider == "" {
			c.Name = filepath.Base(m.LockFile)
			c.Error = d.problem(&c, m.Errors)
		}
		c.Failure = d.problem(&c, of(m.Findings))
		switch skipped := of(m.Unchecked); {
		case c.Error != nil:
			s.Errors++
		case c.Failure != nil:
			s.Failures++
		case len(skipped) > 0:
			c.Skipped = &junitProblem{Message: d.shorten(skipped[0].Text)}
			s.Skipped++
		}
		s.Cases = append(s.Cases, c)
	}
	s.Tests = len(s.Cases)
	return s
}

// problem returns what is wrong in a test case, if anything is, and sets its place.
func (d document) problem(c *junitCase, all []report.Finding) *junitProblem {
	if len(all) == 0 {
		return nil
	}
	var texts, kinds []string
	for _, f := range all {
		place := ""
		if f.File != "" {
			place = ui.Visible(report.Place{File: d.path(f.File), Line: f.Line}.String()) + ": "
		}
		texts, kinds = append(texts, place+d.full(f)), append(kinds, cmp.Or(f.Kind, report.ErrorFinding))
	}
	if first := all[0]; first.File != "" {
		c.File, c.Line = ui.Visible(d.path(first.File)), first.Line
	}
	return &junitProblem{d.shorten(all[0].Message()), strings.Join(report.Unique(kinds), ","), strings.Join(texts, "\n")}
}
