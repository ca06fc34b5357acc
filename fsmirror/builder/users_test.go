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

// What a mirror says about its packages changes nothing that the user knows about them, whatever evidence it has.
func TestMirrorsTeachOnlyWhatIsProved(t *testing.T) {
	known, unknown := widget+"/1.0.0/linux_amd64", widget+"/2.0.0/linux_amd64"
	user, somebody := t.TempDir(), t.TempDir()
	records := func(user string) store.Records { return store.Records{Dir: user, Key: seal.UserKey(user)} }
	synced(t, builder.Options{Records: records(user)}, known)
	want, err := store.NewKnown(records(user).Known()).Of(parseID(t, known))
	must(t, err)
	other, hostile := newDepot(t), t.TempDir()
	other.stockWith(another, known, unknown)
	other.sync(hostile, builder.Options{Records: records(somebody)}, known, unknown)
	for range 2 {
		b := open(t, hostile, builder.Options{Records: records(user), ReadOnly: true})
		v, err := b.Verify(t.Context(), nil)
		must(t, err)
		sourcetest.Expect(t, len(v.Sound) == 2, "sound are %v, found %v", v.Sound, v.Findings)
		must(t, b.Close())
	}
	got, err := store.NewKnown(records(user).Known()).Of(parseID(t, known))
	sourcetest.Expect(t, err == nil && got.H1 == want.H1 && got.ZH == want.ZH, "known is %+v, %v, and was %+v", got, err, want)
	_, err = store.NewKnown(records(user).Known()).Of(parseID(t, unknown))
	sourcetest.ErrorIs(t, err, sources.ErrNotFound)
}
