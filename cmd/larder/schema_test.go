package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// A schema is a JSON Schema of the subset that docs/json.schema.json uses. Other members are
// errors, so that tests find undocumented output.
type schema struct {
	Schema      string    `json:"$schema,omitempty"`
	ID          string    `json:"$id,omitempty"`
	Ref         string    `json:"$ref,omitempty"`
	Title       string    `json:"title,omitempty"`
	Type        string    `json:"type,omitempty"`
	Const       any       `json:"const,omitempty"`
	Description string    `json:"description,omitempty"`
	Enum        []string  `json:"enum,omitempty"`
	Pattern     string    `json:"pattern,omitempty"`
	Required    []string  `json:"required,omitempty"`
	Properties  members   `json:"properties,omitzero"`
	Items       *schema   `json:"items,omitempty"`
	OneOf       []*schema `json:"oneOf,omitempty"`
	Defs        members   `json:"$defs,omitzero"`
}

// Members are the schemas of the members of an object, in the order of the file.
type members struct {
	names []string
	of    map[string]*schema
}

// set adds or replaces a member.
func (m *members) set(name string, of *schema) {
	if m.of == nil {
		m.of = map[string]*schema{}
	}
	if m.of[name] == nil {
		m.names = append(m.names, name)
	}
	m.of[name] = of
}

// MarshalJSON implements [json.Marshaler].
func (m members) MarshalJSON() ([]byte, error) {
	var all []string
	for _, name := range m.names {
		all = append(all, quoted(name)+":"+quoted(m.of[name]))
	}
	return json.Marshal(json.RawMessage("{" + strings.Join(all, ",") + "}"))
}

// UnmarshalJSON implements [json.Unmarshaler].
func (m *members) UnmarshalJSON(data []byte) error {
	if err := decode(data, &m.of); err != nil {
		return err
	}
	in := json.NewDecoder(bytes.NewReader(data))
	_, err := in.Token() // the brace
	for err == nil && in.More() {
		var name json.Token
		if name, err = in.Token(); err == nil {
			m.names = append(m.names, fmt.Sprint(name))
			err = in.Decode(new(json.RawMessage))
		}
	}
	return err
}

// decode reads JSON, and refuses what the value has no field for.
func decode(data []byte, to any) error {
	in := json.NewDecoder(bytes.NewReader(data))
	in.DisallowUnknownFields()
	return in.Decode(to)
}

// readSchema reads the schema of the output.
func readSchema(file string) (*schema, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	s := &schema{}
	return s, decode(data, s)
}

// resolve is the schema that a reference leads to.
func (s *schema) resolve(at *schema) *schema {
	if name, ok := strings.CutPrefix(at.Ref, "#/$defs/"); ok {
		return s.Defs.of[name]
	}
	return at
}

// line says what is wrong with a line of output.
func (s *schema) line(text []byte) (kind string, faults []string) {
	var value map[string]any
	if err := json.Unmarshal(text, &value); err != nil {
		return "", []string{err.Error()}
	}
	kind, _ = value["type"].(string)
	for _, one := range s.OneOf {
		if one = s.resolve(one); one.Properties.of["type"].Const == kind {
			return kind, s.check(kind, value, one)
		}
	}
	return kind, []string{fmt.Sprintf("no type %q", kind)}
}

// check says what is wrong with a value.
func (s *schema) check(path string, value any, at *schema) (faults []string) {
	at = s.resolve(at)
	wrong := func(format string, args ...any) { faults = append(faults, path+": "+fmt.Sprintf(format, args...)) }
	if !hasType(value, at.Type) {
		wrong("%v is not of type %s", value, at.Type)
		return faults
	}
	switch value := value.(type) {
	case string:
		if at.Const != nil && at.Const != value || at.Enum != nil && !slices.Contains(at.Enum, value) {
			wrong("%q is not one of %q", value, at.Enum)
		}
		if at.Pattern != "" && !regexp.MustCompile(at.Pattern).MatchString(value) {
			wrong("%q does not match %q", value, at.Pattern)
		}
	case []any:
		for i, item := range value {
			faults = append(faults, s.check(fmt.Sprintf("%s[%d]", path, i), item, at.Items)...)
		}
	case map[string]any:
		for _, name := range at.Required {
			if _, ok := value[name]; !ok {
				wrong("%s is missing", name)
			}
		}
		for name, member := range value {
			if of := at.Properties.of[name]; of != nil {
				faults = append(faults, s.check(path+"."+name, member, of)...)
			} else {
				wrong("%s is not in the schema", name)
			}
		}
	}
	return faults
}

// hasType reports whether a value has the type that a schema names, if it names one.
func hasType(value any, name string) bool {
	number, isNumber := value.(float64)
	switch name {
	case "integer":
		return isNumber && number == float64(int64(number))
	case "":
		return true
	}
	kinds := map[string]reflect.Kind{
		"string": reflect.String, "boolean": reflect.Bool, "object": reflect.Map, "array": reflect.Slice,
	}
	return value != nil && reflect.TypeOf(value).Kind() == kinds[name]
}

// output says what is wrong with the standard output of a command.
func (s *schema) output(text []byte) (faults []string) {
	last := ""
	for line := range bytes.Lines(text) {
		if last == "summary" {
			faults = append(faults, "the summary is not the last object")
		}
		kind, wrong := s.line(line)
		faults = append(faults, wrong...)
		last = kind
	}
	if last != "summary" {
		faults = append(faults, "the last object is not a summary")
	}
	return faults
}

// A recorder keeps what is written through it.
type recorder struct {
	io.Writer
	text   bytes.Buffer
	failed bool
}

// Write implements [io.Writer].
func (r *recorder) Write(p []byte) (int, error) {
	n, err := r.Writer.Write(p)
	r.text.Write(p[:n])
	r.failed = r.failed || err != nil
	return n, err
}

// exitUndocumented is the exit status of larder in a story if its JSON is not as the
// schema says.
const exitUndocumented = 99

// runChecked runs a command line and returns its exit status, and holds the output of --json to the schema in the file
// that LARDER_TEST_SCHEMA names.
func runChecked(args []string, to, errorsTo io.Writer, start func(stdout, stderr io.Writer) int) int {
	file := os.Getenv("LARDER_TEST_SCHEMA")
	if file == "" || !slices.Contains(args, "--json") {
		return start(to, errorsTo)
	}
	stdout, stderr := &recorder{Writer: to}, &recorder{Writer: errorsTo}
	exit := start(stdout, stderr)
	s, err := readSchema(file)
	if err != nil {
		fmt.Fprintln(errorsTo, err)
		return exitUndocumented
	}
	var faults []string
	if stdout.failed { // so the rest of it is not there
		return exit
	}
	objects, other := &stdout.text, &stderr.text
	if slices.Contains(args[1:], "exec") && !slices.Contains(args, "--help") {
		objects, other = other, objects
	}
	text := objects.Bytes()
	if end := bytes.Index(text, []byte(`"cannot run `)); end > 0 { // what was said before is complete
		end = bytes.LastIndexByte(text[:end], '\n') + 1
		faults = s.output(text[:end])
		text = text[end:]
	}
	faults = append(faults, s.output(text)...)
	if other.Len() > 0 {
		faults = append(faults, "there is something on the other stream")
	}
	for _, fault := range faults {
		fmt.Fprintln(errorsTo, "docs/json.schema.json:", fault)
		exit = exitUndocumented
	}
	return exit
}

// The checker of the stories finds errors.
func TestSchemaIsChecked(t *testing.T) {
	s, err := readSchema("../../docs/json.schema.json")
	sourcetest.Check(t, err)
	const summary = `{"type":"summary","exit_status":0,"errors":0,"warnings":0}` + "\n"
	for _, test := range []struct{ text, want string }{
		{summary, ""},
		{`{"type":"cache","path":"/x"}` + "\n" + summary, ""},
		{`{"type":"cache","path":"/x"}` + "\n", "the last object is not a summary"},
		{summary + summary, "the summary is not the last object"},
		{`{"type":"cache"}` + "\n" + summary, "cache: path is missing"},
		{`{"type":"cache","path":1}` + "\n" + summary, "cache.path: 1 is not of type string"},
		{`{"type":"cache","path":"/x","size":1}` + "\n" + summary, "cache: size is not in the schema"},
		{`{"type":"cash"}` + "\n" + summary, `no type "cash"`},
		{
			`{"type":"key","key":"k","platforms":["linux"],"exact":true}` + "\n" + summary,
			`key.platforms[0]: "linux" does not match "^[a-z0-9]+_[a-z0-9]+$"`,
		},
		{
			`{"type":"diagnostic","severity":"bad","text":""}` + "\n" + summary,
			`diagnostic.severity: "bad" is not one of ["error" "warning"]`,
		},
		{"larder\n" + summary, "invalid character 'l' looking for beginning of value"},
	} {
		sourcetest.Equal(t, strings.Join(s.output([]byte(test.text)), "; "), test.want, test.text)
	}
}

// The schema describes everything, including all verdicts and link modes of the code. The rest is generated.
func TestSchemaIsComplete(t *testing.T) {
	s, err := readSchema("../../docs/json.schema.json")
	sourcetest.Check(t, err)
	for _, one := range s.OneOf {
		object := s.resolve(one)
		kind, _ := object.Properties.of["type"].Const.(string)
		sourcetest.Expect(t, object.Description != "", "%s has no description", kind)
		for _, name := range object.Properties.names[1:] {
			member := object.Properties.of[name]
			described := s.resolve(member) != nil && member.Description+s.resolve(member).Description != ""
			sourcetest.Expect(t, described, "%s of %s has no description", name, kind)
		}
	}
	auto := func(m sources.LinkMode) bool { return m == sources.LinkAuto }
	links := slices.DeleteFunc(slices.Clone(sources.LinkModes), auto)
	link := s.resolve(s.OneOf[0]).Properties.of["link"]
	for of, want := range map[*schema][]string{
		s.Defs.of["verdict"]: sources.Texts(sourcetest.AllVerdicts), link: sources.Texts(links),
	} {
		sourcetest.EqualSlices(t, slices.Sorted(slices.Values(of.Enum)), slices.Sorted(slices.Values(want)))
	}
}

// docs/json.schema.json is generated from the types of the output, and docs/json.md from the schema, by
// go test -update.
func TestJSONDocument(t *testing.T) {
	const schemaFile, file = "../../docs/json.schema.json", "../../docs/json.md"
	const how = "run go test ./cmd/larder -run TestJSONDocument -update"
	s, err := readSchema(schemaFile)
	sourcetest.Check(t, err)
	s.generate()
	before, _, ok := strings.Cut(string(sourcetest.ReadFile(t, file)), "\n## ")
	sourcetest.Expect(t, ok, "docs/json.md has no sections")
	for file, want := range map[string]string{schemaFile: s.text(), file: before + "\n" + s.markdown()} {
		if *update {
			sourcetest.Check(t, os.WriteFile(file, []byte(want), 0o644))
		}
		sourcetest.Equal(t, string(sourcetest.ReadFile(t, file)), want, how)
	}
}

// markdown describes the objects of the schema, a section each.
func (s *schema) markdown() string {
	var b strings.Builder
	listed := map[string]bool{}
	for i, one := range s.OneOf {
		object := s.resolve(one)
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "## %s\n\n%s\n\n", object.Properties.of["type"].Const, object.Description)
		b.WriteString("| member | | |\n| --- | --- | --- |\n")
		for _, name := range object.Properties.names[1:] {
			always := ""
			if slices.Contains(object.Required, name) {
				always = "always"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", name, always, s.meaning(object.Properties.of[name], listed))
		}
	}
	return b.String()
}

// meaning describes a member, with the values that it can have. Those of a type that many
// objects have are listed once.
func (s *schema) meaning(member *schema, listed map[string]bool) string {
	of := s.resolve(member)
	text := member.Description
	if text == "" {
		text = of.Description
	}
	if of.Type == "array" {
		text = "list: " + text
	}
	if len(of.Enum) > 0 && !listed[member.Ref] {
		listed[member.Ref] = member.Ref != ""
		text += ": `" + strings.Join(of.Enum, "`, `") + "`"
	}
	return text
}
