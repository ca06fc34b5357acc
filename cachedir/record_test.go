package cachedir

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// A valid record that is written and read again is the same record.
func FuzzRecord(f *testing.F) {
	for _, seed := range []string{
		`{"format":3,"h1":"h1:x","proof":{"matched":true,"name":"n","signers":[{"fingerprint":"F","user_id":"U","from":"registry","signed":"2026-01-02T03:04:05Z","key_ends":"2027-01-02T03:04:05Z","partner":"claimed"}]}}`,
		`{"format":3,"h1":"h1:x","files":[{"path":"a","size":1,"mtime":2,"inode":18446744073709551615,"volume":3}]}`,
		`{"format":3,"h1":"h1:x","zip_h1":"h1:y","zh":"zh:z","filename":"f","origin":"o","evidence":"ff","link":"copy","dir":"/d"}`,
		`{"format":4,"h1":"h1:x"}`, `{"format":3}`, `{"format":3,"h1":"h1:x","proof":1}`,
		`{"format":3,"h1":"h1:x","files":[{"size":-1}]}`, `[]`, `null`, ``, "\x00\x00",
	} {
		f.Add([]byte(seed))
		for mutant := range sourcetest.Mutants([]byte(seed)) {
			f.Add(mutant)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := parseRecord(data)
		if err != nil {
			return
		}
		written, err := json.Marshal(r)
		sourcetest.Check(t, err)
		again, err := parseRecord(written)
		sourcetest.Expect(t, err == nil && reflect.DeepEqual(again, r), "%s became %+v, %v", data, again, err)
	})
}

func TestParseRecord(t *testing.T) {
	for data, ok := range map[string]bool{
		`{"format":3,"h1":"h1:x","files":[]}`:              true,
		`{"format":3,"h1":"h1:x"}`:                         true,
		`{"format":3,"h1":""}`:                             false,
		`{"format":2,"h1":"h1:x"}`:                         false,
		`{"format":4,"h1":"h1:x"}`:                         false,
		`{"format":3,"h1":"h1:x"`:                          false,
		`{"format":3,"h1":"h1:x","files":[{"size":1e99}]}`: false,
		``: false,
	} {
		_, err := parseRecord([]byte(data))
		sourcetest.Expect(t, (err == nil) == ok, "%s: %v", data, err)
	}
}

func TestRecordsOfAnotherBootAreNotUsed(t *testing.T) {
	for name, boot := range map[string]string{"this boot": disk.Boot(), "on the disk": "", "another boot": "gone"} {
		r := record{Boot: boot}
		sourcetest.Equal(t, r.survives(), boot != "gone", name, "survives is")
	}
}
