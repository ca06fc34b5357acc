package builder_test

import (
	"testing"

	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/seal"
	"github.com/larder-cli/larder/sources/sourcetest"
	"github.com/larder-cli/larder/sources/store"
)

// Several users may write to a mirror. None loses what others have proved, and none believes it.
func TestUsersKeepTheirRecords(t *testing.T) {
	ids := []string{widget + "/1.0.0/linux_amd64", widget + "/2.0.0/linux_amd64"}
	d, dir := newDepot(t, ids...), t.TempDir()
	first, second, third := t.TempDir(), t.TempDir(), t.TempDir()
	records := func(user string) store.Records { return store.Records{Dir: user, Key: seal.UserKey(user)} }
	d.sync(dir, builder.Options{Records: records(first)}, ids[0])
	for _, k := range []string{second, third, second} {
		d.sync(dir, builder.Options{Records: records(k)}, ids[1])
	}
	for name, c := range map[string]struct {
		user string
		id   string
		want sources.Verdict
	}{
		"first, own": {first, ids[0], sources.SelfSigned}, "second, own": {second, ids[1], sources.SelfSigned},
		"third, that of the second": {third, ids[1], sources.MirrorEvidence}, // it accepted the package, and cannot know where the key was listed
		"second, that of the first": {second, ids[0], sources.Unverified},
	} {
		b := open(t, dir, builder.Options{Records: records(c.user), ReadOnly: true})
		s, err := b.Recall(parseID(t, c.id))
		sourcetest.Expect(t, s.Report.Verdict == c.want && (err == nil) == (c.want > sources.Unverified), "%s: got %q, %v", name, s.Report.Verdict, err)
	}
}
