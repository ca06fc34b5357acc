package report

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/larder-cli/larder/cmd/larder/ui"
)

// An Object is something that a job has to tell. For programs it is an object with its members.
type Object interface{ object() }

// Typed makes a struct that embeds it an [Object]. Its tag is the member "type" of the object.
type Typed struct{}

func (Typed) object() {}

// TypeOf returns the member "type" of an object.
func TypeOf(v Object) string {
	f, _ := reflect.TypeOf(v).FieldByName("Typed") // no other type is an Object
	return f.Tag.Get("type")
}

// A Value is an object that people see as one line.
type Value interface {
	Object
	Text(o *Output) string
}

// A Row is an object that people see as a row of a table.
type Row interface {
	Object
	celled
}

// A celled is a row of a table, which programs may not get.
type celled interface {
	Cells(o *Output) []Cell // nil for a row that only programs get
}

// Show writes a value as a result.
func (o *Output) Show(v Value) {
	o.Tell(v)
	o.Sentence("%s", v.Text(o))
}

// ShowText writes a text of several lines, without colors, as a result, or objects with the same contents.
func (o *Output) ShowText(text string, objects ...Object) {
	if !o.JSON {
		o.screen.Write(o.Stdout, ui.Escaped(text))
		return
	}
	for _, object := range objects {
		o.object(object)
	}
}

// IndentedJSON returns a document of a format in JSON, for ShowText.
func IndentedJSON(document any) string {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	_ = encoder.Encode(document) // whose values always have JSON
	return b.String()
}

// ShowPage is like ShowText for a page of help, which is laid out for the terminal, and which a pager shows.
func (o *Output) ShowPage(page string, objects ...Object) {
	if !o.JSON {
		o.screen.Page(o.Stdout, ui.Escaped(ui.Laid(page, o.Width())))
	}
	o.Tell(objects...)
}

// Tell writes objects for programs. People get the same information in another form.
func (o *Output) Tell(objects ...Object) { o.ShowText("", objects...) }

// tellAll is Tell for objects of one type.
func tellAll[V Object](o *Output, all []V) {
	for _, v := range all {
		o.Tell(v)
	}
}

// Grid writes rows as results: on a terminal with headers, and fitted to its width.
func Grid[R Row](o *Output, rows []R) {
	tellAll(o, rows)
	Table(o, rows)
}

// GridOf is Grid with a row for each element.
func GridOf[E any, R Row](o *Output, all []E, row func(E) R) {
	rows := make([]R, len(all))
	for i, e := range all {
		rows[i] = row(e)
	}
	Grid(o, rows)
}

// Table is Grid for people only.
func Table[R celled](o *Output, rows []R) {
	if !o.JSON {
		colored := o.Color.Shows(o.Stdout)
		for some := range slices.Chunk(lay(o, rows, o.Width()), 100) { // a call for each line takes time
			var text strings.Builder
			for _, line := range some {
				text.WriteString(line.Render(colored) + "\n")
			}
			o.screen.Write(o.Stdout, text.String())
		}
	}
}

// TableAside is [Table] on standard error, unless --quiet is set.
func TableAside[R celled](o *Output, rows []R) {
	width, _ := ui.TerminalSize(o.Stderr)
	for _, line := range lay(o, rows, width) {
		o.Say("%s", line.Render(false))
	}
}

// Sentence writes text as a line of the result for people, wrapped to fit a terminal.
func (o *Output) Sentence(format string, args ...any) {
	if !o.JSON {
		o.print(o.Stdout, ui.Text(o.Brief(fmt.Sprintf(format, args...))), 2)
	}
}
