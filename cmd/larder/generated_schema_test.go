package main

import (
	"bytes"
	"encoding"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/larder-cli/larder/cmd/larder/job"
	"github.com/larder-cli/larder/cmd/larder/job/ask"
	"github.com/larder-cli/larder/cmd/larder/job/cache"
	"github.com/larder-cli/larder/cmd/larder/job/install"
	"github.com/larder-cli/larder/cmd/larder/line"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/fsmirror/bundle"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// objects are the types of all objects of the output, in the order of the document.
var objects = []report.Object{
	report.Outcome{}, report.LockFile{}, report.Shim{}, install.LockChange{},
	install.LockDiff{}, report.Event{}, report.Diagnostic{}, cache.Path{}, cache.Cached{},
	cache.Usage{}, cache.ProviderTotal{}, report.Finding{}, report.Checked{},
	report.Imported{}, report.Skipped{}, report.Missing{}, cache.Key{},
	cache.Forgotten{}, cache.Released{}, cache.Removal{}, report.MirrorRemoval{}, report.Mirrored{}, report.Document{},
	report.Difference{}, report.Pushed{}, report.Bundled{}, report.BundledRemoval{},
	report.Payload{}, Manifest{}, report.Version{}, line.Help{},
	report.Topic{}, line.GlobalFlags{}, report.ExitStatus{}, ask.ConfigFile{}, ask.ConfigVariable{},
	report.Completion{}, ask.Explanation{}, ask.Required{}, ask.Release{}, ask.EngineChoice{}, ask.ConfigMethod{}, ask.Setting{},
	ask.Inventory{}, ask.Outdated{}, report.Exchange{}, report.Serving{}, report.Served{}, report.Summary{},
}

// summaries are the types of what commands add to the summary.
var summaries = []any{
	job.InstallSum{}, install.LockSum{}, report.FillSum{}, report.VerifySum{}, report.RepairSum{},
	cache.Total{}, report.PruneSum{}, report.Listed{},
	cache.Forgot{}, report.BundleSum{}, report.ImportSum{}, report.Indexed{}, report.SetSum{}, report.Compared{}, report.PushSum{},
	report.ShimSum{}, report.Diagnosed{}, ask.Releases{}, ask.RequiredSum{}, ask.ListSum{}, ask.OutdatedSum{}, install.CheckSum{}, report.ServeSum{},
}

// A Manifest has the members of a [report.Manifest], which encodes itself.
type Manifest struct {
	report.Manifest `json:"-"`
	Format          int `json:"format"`
	Contents        bundle.Manifest
}

// A member is a member of an object.
type member struct {
	name   string
	of     reflect.Type
	always bool
}

// membersOf returns the members that a type has in JSON.
func membersOf(t reflect.Type) (all []member) {
	for _, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Type == reflect.TypeFor[bundle.Manifest]():
			all = append(all, membersOf(f.Type)...)
		case f.IsExported() && !f.Anonymous && name != "-":
			all = append(all, member{name, f.Type, !strings.Contains(options, "omit") && !behindPointer(t, f.Index)})
		}
	}
	return all
}

// behindPointer reports whether a field belongs to an embedded pointer, which may be nil.
func behindPointer(t reflect.Type, index []int) bool {
	for n := range len(index) - 1 {
		if t.FieldByIndex(index[:n+1]).Type.Kind() == reflect.Pointer {
			return true
		}
	}
	return false
}

// generate makes the objects of a schema from their types. It keeps what types don't have: the order,
// descriptions, references, enums and patterns of members that are still there, and whether an object
// may be about a root module.
func (s *schema) generate() {
	var kinds []string
	variants := map[string][][]member{}
	for _, object := range objects {
		kind := report.TypeOf(object)
		if !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
		variants[kind] = append(variants[kind], membersOf(reflect.TypeOf(object)))
	}
	common := variants["summary"][0]
	for _, summary := range summaries {
		variants["summary"] = append(variants["summary"], slices.Concat(common, membersOf(reflect.TypeOf(summary))))
	}
	for _, one := range s.OneOf {
		if kind := strings.TrimPrefix(one.Ref, "#/$defs/"); !slices.Contains(kinds, kind) {
			s.Defs.names = slices.DeleteFunc(s.Defs.names, func(name string) bool { return name == kind })
		}
	}
	s.OneOf = nil
	for _, kind := range kinds {
		s.OneOf = append(s.OneOf, &schema{Ref: "#/$defs/" + kind})
		s.Defs.set(kind, s.object(s.Defs.of[kind], kind, variants[kind]))
	}
}

// object returns the schema of an object with the members of any of its variants. Those that all
// variants always have are required.
func (s *schema) object(old *schema, kind string, variants [][]member) *schema {
	if old == nil {
		old = &schema{}
	}
	o := &schema{Type: "object", Description: old.Description}
	if kind != "" {
		o.Properties.set("type", &schema{Const: kind})
		o.Required = []string{"type"}
	}
	all := slices.Concat(variants...)
	place := func(m member) int { // of new members: the last
		return slices.Index(append(slices.Clone(old.Properties.names), m.name), m.name)
	}
	slices.SortStableFunc(all, func(a, b member) int { return place(a) - place(b) })
	for _, name := range []string{"time", "level", "request", "module"} { // the log of larder serve has three of them
		if of := old.Properties.of[name]; of != nil && kind != "" {
			o.Properties.set(name, of)
		}
	}
	for _, m := range all {
		if o.Properties.of[m.name] != nil {
			continue
		}
		o.Properties.set(m.name, s.fit(old.Properties.of[m.name], m.of))
		missing := func(variant []member) bool {
			return !slices.ContainsFunc(variant, func(v member) bool { return v.name == m.name && v.always })
		}
		if !slices.ContainsFunc(variants, missing) {
			o.Required = append(o.Required, m.name)
		}
	}
	return o
}

// fit returns the schema of values of a type, with what fits of an old schema.
func (s *schema) fit(old *schema, t reflect.Type) *schema {
	if old == nil {
		old = &schema{}
	}
	if name, ok := strings.CutPrefix(old.Ref, "#/$defs/"); ok {
		def := s.fit(s.Defs.of[name], t)
		if def.Type == s.Defs.of[name].Type {
			s.Defs.of[name] = def
			return old
		}
	}
	fitted := &schema{Description: old.Description}
	switch {
	case t.Kind() == reflect.Pointer:
		return s.fit(old, t.Elem())
	case t.Implements(reflect.TypeFor[json.Marshaler]()): // only stories show what it writes
		return old
	case t.Kind() == reflect.String || t.Implements(reflect.TypeFor[encoding.TextMarshaler]()):
		fitted.Type, fitted.Enum, fitted.Pattern = "string", old.Enum, old.Pattern
	case t.Kind() == reflect.Bool:
		fitted.Type = "boolean"
	case t.Kind() == reflect.Slice:
		fitted.Type, fitted.Items = "array", s.fit(old.Items, t.Elem())
	case t.Kind() == reflect.Struct:
		return s.object(old, "", [][]member{membersOf(t)})
	case reflect.Zero(t).CanInt():
		fitted.Type = "integer"
	}
	return fitted
}

// text returns the text of the file of a schema: a line for each member of an object.
func (s *schema) text() string {
	var b strings.Builder
	field := func(name, value string) string { return quoted(name) + ": " + value }
	block := func(indent, open string, lines []string, end string) string {
		return open + "\n" + indent + "  " + strings.Join(lines, ",\n"+indent+"  ") + "\n" + indent + end
	}
	var kinds, defs []string
	for _, one := range s.OneOf {
		kinds = append(kinds, inline(one))
	}
	for _, name := range s.Defs.names {
		def := s.Defs.of[name]
		if def.Type != "object" {
			defs = append(defs, field(name, inline(def)))
			continue
		}
		var properties []string
		for _, name := range def.Properties.names {
			properties = append(properties, field(name, inline(def.Properties.of[name])))
		}
		defs = append(defs, field(name, block("    ", "{", []string{
			field("type", inline(def.Type)), field("description", inline(def.Description)),
			field("required", inline(def.Required)), field("properties", block("      ", "{", properties, "}")),
		}, "}")))
	}
	b.WriteString(block("", "{", []string{
		field("$schema", inline(s.Schema)), field("$id", inline(s.ID)), field("title", inline(s.Title)),
		field("description", inline(s.Description)), field("oneOf", block("  ", "[", kinds, "]")),
		field("$defs", block("  ", "{", defs, "}")),
	}, "}"))
	return b.String() + "\n"
}

// inline returns a value as JSON on one line, with spaces.
func inline(value any) string {
	var b bytes.Buffer
	_ = json.Indent(&b, []byte(quoted(value)), "", "") // it is JSON
	return strings.NewReplacer("{\n", "{ ", "\n}", " }", "[\n", "[", "\n]", "]", ",\n", ", ").Replace(b.String())
}

// quoted returns a value as JSON.
func quoted(value any) string {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value) // schemas contain nothing that has no JSON
	return strings.TrimSuffix(b.String(), "\n")
}

// The list of objects has every type that is one.
func TestObjectsAreListed(t *testing.T) {
	var found, listed []string
	for _, dir := range []string{"report", "line", "job/ask", "job/cache", "job/install"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		sourcetest.Check(t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			sourcetest.Check(t, err)
			for _, match := range typed.FindAllSubmatch(text, -1) {
				found = append(found, string(match[1]))
			}
		}
	}
	for _, object := range objects {
		listed = append(listed, reflect.TypeOf(object).Name())
	}
	slices.Sort(found)
	slices.Sort(listed)
	sourcetest.EqualSlices(t, listed, found)
}

// typed matches the beginning of a type that is an object.
var typed = regexp.MustCompile("(?m)^type (\\w+) struct {\n\t(?:report\\.)?Typed +`type:\"\\w+\"`\n")
