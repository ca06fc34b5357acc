package hclfile

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// Files are parsed at the same time if together they may take the memory that there is.
func TestLargeFilesWaitForEachOther(t *testing.T) {
	const third = MaxMemory/3 - 1000
	src := []byte("#" + strings.Repeat("@", third/perError)) // takes nothing, but could
	var open, most atomic.Int64
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			ds := Parse("main.tf", src, func(hcl.Body) {
				n := open.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				time.Sleep(20 * time.Millisecond)
				open.Add(-1)
			})
			sourcetest.Check(t, ds.Err())
		})
	}
	group.Wait()
	sourcetest.Expect(t, most.Load() >= 1 && most.Load() <= 3, "%d at a time", most.Load())
}

// Real files take less than is estimated, and may be large.
func TestEstimatesOfMemory(t *testing.T) {
	native := "resource \"aws_instance\" \"name\" {\n  ami = \"ami-12345678\"\n  tags = {\n    Name = \"some-name-${var.env}\"\n  }\n}\n"
	inJSON := `{"resource":{"aws_x":{"n":{"bucket":"some-bucket","policy":"{\"Version\":\"2012\",\"a\":[\"b\"]}","tags":{"Name":"some name"}}}}}`
	for _, test := range []struct {
		takes func([]byte) int64
		src   string
		least int64 // size in MiB of a file like this that can be parsed
	}{
		{NativeMemory, native, 5},
		{NativeMemory, "# " + strings.Repeat("some words in a comment ", 4) + "\n", 11},
		{jsonMemory, inJSON, 12},
		{jsonMemory, `{"a":"` + strings.Repeat(`\",`, 100) + `"}`, 100},
	} {
		sourcetest.Expect(t, test.takes([]byte(test.src))*test.least<<20/int64(len(test.src)) <= MaxMemory, "%.20s… takes %d", test.src, test.takes([]byte(test.src)))
	}
}
