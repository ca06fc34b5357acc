package cachedir

import (
	"testing"

	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/sourcetest"
)

func TestRecordsOfAnotherBootAreNotUsed(t *testing.T) {
	for name, boot := range map[string]string{"this boot": disk.Boot(), "on the disk": "", "another boot": "gone"} {
		r := record{Boot: boot}
		sourcetest.Equal(t, r.survives(), boot != "gone", name, "survives is")
	}
}
