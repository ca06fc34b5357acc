package report

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/larder-cli/larder/cmd/larder/ui"
)

// The parts of SARIF 2.1.0 that check writes: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html.

type sarifLog struct {
	Schema  string     `json:"$schema"`
	Version string     `json:"version"`
	Runs    []sarifRun `json:"runs"`
}

type sarifRun struct {
	Tool struct {
		Driver sarifDriver `json:"driver"`
	} `json:"tool"`
	Invocations []sarifInvocation `json:"invocations"`
	Results     []sarifResult     `json:"results"`
}

type sarifDriver struct {
	Name           string      `json:"name"`
	Version        string      `json:"version"`
	InformationURI string      `json:"informationUri"`
	Rules          []sarifRule `json:"rules"`
}

type sarifRule struct {
	ID    string    `json:"id"`
	Short sarifText `json:"shortDescription"`
	Full  sarifText `json:"fullDescription"` // GitHub requires it
	Help  sarifText `json:"help"`
	URI   string    `json:"helpUri"`
}

type sarifText struct {
	Text string `json:"text"`
}

type sarifInvocation struct {
	Succeeded     bool                `json:"executionSuccessful"`
	Notifications []sarifNotification `json:"toolExecutionNotifications,omitempty"`
}

type sarifNotification struct {
	Level     string          `json:"level"`
	Message   sarifText       `json:"message"`
	Locations []sarifLocation `json:"locations,omitempty"`
}

type sarifResult struct {
	RuleID       string            `json:"ruleId"`
	RuleIndex    int               `json:"ruleIndex"`
	Level        string            `json:"level"`
	Message      sarifText         `json:"message"`
	Locations    []sarifLocation   `json:"locations,omitempty"`
	Related      []sarifLocation   `json:"relatedLocations,omitempty"`
	Fingerprints map[string]string `json:"partialFingerprints"`
}

type sarifLocation struct {
	ID       int           `json:"id,omitempty"`
	Physical sarifPhysical `json:"physicalLocation"`
	Message  *sarifText    `json:"message,omitempty"`
}

type sarifPhysical struct {
	Artifact sarifArtifact `json:"artifactLocation"`
	Region   sarifRegion   `json:"region"` // GitHub requires it
}

type sarifArtifact struct {
	URI  string `json:"uri"`
	Base string `json:"uriBaseId,omitempty"`
}

type sarifRegion struct {
	Line int `json:"startLine"`
}

// docs is where the rules of check are explained.
const docs = "https://github.com/larder-cli/larder/blob/main/docs/ci.md"

// sarif returns the results as SARIF. Each place of a finding is a result, because CI systems show only the first
// place of a result.
func (d document) sarif(version string) string {
	run := sarifRun{Invocations: []sarifInvocation{{Succeeded: true}}, Results: []sarifResult{}}
	run.Tool.Driver = sarifDriver{Name: "Larder", Version: version, InformationURI: "https://github.com/larder-cli/larder"}
	for _, r := range CheckRules {
		run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, sarifRule{r.ID, sarifText{r.Does}, sarifText{r.Does}, sarifText{r.Does}, docs + "#rules-of-larder-check"})
	}
	invocation := &run.Invocations[0]
	known := map[string]int{} // fingerprints
	for _, m := range d.modules {
		for _, f := range m.Errors {
			invocation.Succeeded = false
			invocation.Notifications = append(invocation.Notifications, sarifNotification{"error", sarifText{d.within(m, f.Text)}, d.locations(f.Place)})
		}
		for _, u := range m.Unchecked {
			invocation.Notifications = append(invocation.Notifications, sarifNotification{"warning", sarifText{d.within(m, "not checked: "+u.Text)}, nil})
		}
		for _, f := range m.Findings {
			at := f.Places[0].Place
			r := sarifResult{RuleID: f.Rule, RuleIndex: ruleIndex(f.Rule), Level: f.Severity, Message: sarifText{d.full(f)}, Locations: d.locations(at)}
			for i, place := range f.Related {
				for _, l := range d.locations(place) {
					l.ID, l.Message = i+1, &sarifText{"the rule or the constraint"}
					r.Related = append(r.Related, l)
				}
			}
			// Lines, versions and texts change while the problem stays the same.
			print := fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join([]string{f.Rule, f.Provider, d.path(at.File)}, "\x00"))))
			known[print]++
			r.Fingerprints = map[string]string{"larder/v1": fmt.Sprintf("%s:%d", print[:16], known[print])}
			run.Results = append(run.Results, r)
		}
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	_ = encoder.Encode(sarifLog{"https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json", "2.1.0", []sarifRun{run}}) // always has JSON
	return b.String()
}

// ruleIndex returns the index of a rule, or -1 if it is unknown.
func ruleIndex(id string) int {
	return slices.IndexFunc(CheckRules, func(r CheckRule) bool { return r.ID == id })
}

// within returns a text about a root module.
func (d document) within(m CheckedModule, text string) string {
	if m.Name == "." {
		return d.shorten(text)
	}
	return ui.Visible(m.Name) + ": " + d.shorten(text)
}

// full returns the text of a finding with its hints.
func (d document) full(f CheckFinding) string {
	text := d.shorten(f.Message())
	for _, hint := range f.Hints {
		text += "\nhint: " + d.shorten(hint)
	}
	return text
}

// locations returns a place, if there is one.
func (d document) locations(p Place) []sarifLocation {
	if p.File == "" {
		return nil
	}
	var at sarifPhysical
	path := d.path(p.File)
	if filepath.IsAbs(path) {
		at.Artifact.URI = (&url.URL{Scheme: "file", Path: "/" + strings.TrimPrefix(path, "/")}).String()
	} else {
		var names []string
		for name := range strings.SplitSeq(path, "/") {
			names = append(names, url.PathEscape(name))
		}
		at.Artifact = sarifArtifact{strings.Join(names, "/"), "%SRCROOT%"}
	}
	at.Region.Line = max(p.Line, 1)
	return []sarifLocation{{Physical: at}}
}
