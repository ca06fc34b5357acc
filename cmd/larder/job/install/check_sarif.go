package install

import (
	"crypto/sha256"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/ui"
)

// object is an object of SARIF 2.1.0, with the members that check writes:
// https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html.
type object = map[string]any

// docs is where the rules of check are explained.
const docs = "https://github.com/larder-cli/larder/blob/main/docs/ci.md"

// sarif returns the results as SARIF. Each place of a finding is a result, because CI systems show only the first
// place of a result.
func (d document) sarif() string {
	text := func(text string) object { return object{"text": text} }
	rules, results, notifications := []object{}, []object{}, []object{}
	for _, r := range CheckRules {
		does := text(r.Does) // GitHub requires the full description
		rules = append(rules, object{
			"id": r.ID, "shortDescription": does, "fullDescription": does, "help": does,
			"helpUri": docs + "#rules-of-larder-check",
		})
	}
	succeeded := true
	known := map[string]int{} // fingerprints
	for _, m := range d.modules {
		for _, f := range m.Errors {
			succeeded = false
			notifications = append(notifications, object{
				"level": "error", "message": text(d.within(m, f.Text)), "locations": d.locations(f.Place()),
			})
		}
		for _, u := range m.Unchecked {
			message := text(d.within(m, "not checked: "+u.Text))
			notifications = append(notifications, object{"level": "warning", "message": message})
		}
		for _, f := range m.Findings {
			at, related := f.Place(), []object{}
			index := slices.IndexFunc(CheckRules, func(r CheckRule) bool { return r.ID == f.Kind })
			for i, place := range f.Related {
				for _, l := range d.locations(place) {
					l["id"], l["message"] = i+1, text("the rule or the constraint")
					related = append(related, l)
				}
			}
			// Lines, versions and texts change while the problem stays the same.
			print := fmt.Sprintf("%x", sha256.Sum256([]byte(f.Kind+"\x00"+f.Provider+"\x00"+d.path(at.File))))
			known[print]++
			results = append(results, object{
				"ruleId": f.Kind, "ruleIndex": index, "level": f.Severity, "message": text(d.full(f)),
				"locations": d.locations(at), "relatedLocations": related,
				"partialFingerprints": object{"larder/v1": fmt.Sprintf("%s:%d", print[:16], known[print])},
			})
		}
	}
	driver := object{
		"name": "Larder", "version": d.version, "informationUri": "https://github.com/larder-cli/larder", "rules": rules,
	}
	return report.IndentedJSON(object{
		"$schema": "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json",
		"version": "2.1.0",
		"runs": []object{{
			"tool":        object{"driver": driver},
			"invocations": []object{{"executionSuccessful": succeeded, "toolExecutionNotifications": notifications}},
			"results":     results,
		}},
	})
}

// within returns a text about a root module.
func (d document) within(m checkResult, text string) string {
	if m.Name == "." {
		return d.shorten(text)
	}
	return ui.Visible(m.Name) + ": " + d.shorten(text)
}

// full returns the text of a finding with its hints.
func (d document) full(f report.Finding) string {
	text := d.shorten(f.Message())
	for _, hint := range f.Hints {
		text += "\nhint: " + d.shorten(hint)
	}
	return text
}

// locations returns a place, if there is one.
func (d document) locations(p report.Place) []object {
	if p.File == "" {
		return []object{}
	}
	file := object{}
	path := d.path(p.File)
	if filepath.IsAbs(path) {
		file["uri"] = (&url.URL{Scheme: "file", Path: "/" + strings.TrimPrefix(path, "/")}).String()
	} else {
		names := strings.Split(path, "/")
		for i, name := range names {
			names[i] = url.PathEscape(name)
		}
		file["uri"], file["uriBaseId"] = strings.Join(names, "/"), "%SRCROOT%"
	}
	region := object{"startLine": max(p.Line, 1)} // GitHub requires it
	return []object{{"physicalLocation": object{"artifactLocation": file, "region": region}}}
}
