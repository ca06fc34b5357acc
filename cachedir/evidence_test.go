package cachedir_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// signedDelivery is a delivery with the given evidence.
func signedDelivery(data []byte, signed *sources.Signed, from sources.KeyOrigin) sourcetest.Supply {
	del := delivery(data)
	fetch := del.Fetch
	del.Fetch = func(ctx context.Context, stage sources.Stage) (sourcetest.Supplied, error) {
		parcel, err := fetch(ctx, stage)
		parcel.Signed = signed
		return parcel, err
	}
	del.Judge = func(sources.Contents) (sources.Proof, error) { return signedBy(from), nil }
	return del
}

// signedBy is the proof of a signature by a key of this origin.
func signedBy(from sources.KeyOrigin) sources.Proof {
	return sources.Proof{Name: "widget.zip", Signers: []sources.Signer{{Fingerprint: "the key", From: from}}}
}

func evidenceBy(sums, key string) *sources.Signed {
	return &sources.Signed{Sums: []byte(sums), Signature: []byte("by " + key), Keys: []sources.Key{{Armor: key}}}
}

// If the evidence for a version is merged or replaced, what the new evidence proves about
// a package counts. If it proves nothing, the facts in the record still hold, unless the
// key was revoked. The keys that a registry listed stay known.
func TestChangedEvidence(t *testing.T) {
	arm, amd := widget, widget
	amd.Platform = sources.Platform{OS: "linux", Arch: "amd64"}
	var warnings []error
	var refuse error
	opts := cachedir.Options{
		Warn: func(err error) { warnings = append(warnings, err) },
		Judge: sourcetest.Verdicts{
			OnMerge: func(kept, new *sources.Signed) (*sources.Signed, error) {
				sourcetest.Expect(t, kept.Keys[0].Listed(), "Merge isn't told that the registry listed the key")
				merged := *new
				merged.Keys = append(slices.Clone(new.Keys), kept.Keys...)
				return &merged, errors.New("worth a warning")
			},
			OnProve: func(s *sources.Signed, _ sources.Hash) (sources.Proof, error) {
				for _, k := range s.Keys {
					sourcetest.Expect(t, k.Listed() == (k.Armor == "registry"), "key %s: listed is %v", k.Armor, k.Listed())
				}
				return signedBy(sources.KeyFromRegistry), refuse
			},
		},
	}
	root := t.TempDir()
	d := open(t, root, opts)
	first := evidenceBy("sums", "registry")
	first.Keys[0] = first.Keys[0].AsListed(true)
	data := widgetFiles.zip(t)
	_, err := sourcetest.Put(t.Context(), d, arm, signedDelivery(data, first, sources.KeyFromRegistry))
	check(t, err)
	_, err = sourcetest.Put(t.Context(), d, amd, signedDelivery(data, evidenceBy("sums", "mirror"), sources.KeyFromMirror))
	check(t, err)
	if len(warnings) != 1 || warnings[0].Error() != "example.test/acme/widget 1.2.0: worth a warning" {
		t.Errorf("warnings: %v", warnings)
	}
	for _, test := range []struct {
		refuse error
		want   sources.Verdict
	}{{nil, sources.SelfSigned}, {errors.New("damaged"), sources.SelfSigned}, {sources.ErrRevoked, sources.Unverified}} {
		refuse = test.refuse
		s, err := open(t, root, opts).Get(t.Context(), arm)
		check(t, err)
		if (s.Signed != nil) != (refuse == nil) || s.Signed != nil && !bytes.Equal(s.Signed.Sums, first.Sums) || s.Report.Verdict != test.want {
			t.Errorf("%v: got %q, %v", refuse, s.Report.Verdict, s.Signed)
		}
	}
}
