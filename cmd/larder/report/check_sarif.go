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
		Driver struct {
			Name           string      `json:"name"`
			Version        string      `json:"version"`
			InformationURI string      `json:"informationUri"`
			Rules          []sarifRule `json:"rules"`
		} `json:"driver"`
	} `json:"tool"`
	Invocations [1]struct {
		Succeeded     bool                `json:"executionSuccessful"`
		Notifications []sarifNotification `json:"toolExecutionNotifications,omitempty"`
	} `json:"invocations"`
	Results []sarifResult `json:"results"`
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
	ID       int `json:"id,omitempty"`
	Physical struct {
		Artifact struct {
			URI  string `json:"uri"`
			Base string `json:"uriBaseId,omitempty"`
		} `json:"artifactLocation"`
		Region struct {
			Line int `json:"startLine"`
		} `json:"region"` // GitHub requires it
	} `json:"physicalLocation"`
	Message *sarifText `json:"message,omitempty"`
}

// docs is where the rules of check are explained.
const docs = "https://github.com/larder-cli/larder/blob/main/docs/ci.md"

// sarif returns the results as SARIF. Each place of a finding is a result, because CI systems show only the first
// place of a result.
func (d document) sarif(version string) string {
	run := sarifRun{Results: []sarifResult{}}
	driver, invocation := &run.Tool.Driver, &run.Invocations[0]
	driver.Name, driver.Version, driver.InformationURI = "Larder", version, "https://github.com/larder-cli/larder"
	for _, r := range CheckRules {
		does := sarifText{r.Does}
		driver.Rules = append(driver.Rules, sarifRule{r.ID, does, does, does, docs + "#rules-of-larder-check"})
	}
	invocation.Succeeded = true
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
			index := slices.IndexFunc(CheckRules, func(r CheckRule) bool { return r.ID == f.Rule })
			r := sarifResult{
				RuleID: f.Rule, RuleIndex: index, Level: f.Severity, Message: sarifText{d.full(f)}, Locations: d.locations(at),
			}
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
	var l sarifLocation
	at := &l.Physical.Artifact
	path := d.path(p.File)
	if filepath.IsAbs(path) {
		at.URI = (&url.URL{Scheme: "file", Path: "/" + strings.TrimPrefix(path, "/")}).String()
	} else {
		names := strings.Split(path, "/")
		for i, name := range names {
			names[i] = url.PathEscape(name)
		}
		at.URI, at.Base = strings.Join(names, "/"), "%SRCROOT%"
	}
	l.Physical.Region.Line = max(p.Line, 1)
	return []sarifLocation{l}
}
