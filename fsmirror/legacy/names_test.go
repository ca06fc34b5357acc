package legacy

import "testing"

func TestNamesOfExecutables(t *testing.T) {
	for _, tt := range []struct {
		file string
		want clues
		ok   bool
	}{
		{"terraform-provider-foo_v1.2.3", clues{typ: "foo", version: "1.2.3"}, true},
		{"terraform-provider-foo_v1.2.3_x4", clues{typ: "foo", version: "1.2.3"}, true},
		{"terraform-provider-foo_v1.2.3_x5.exe", clues{typ: "foo", version: "1.2.3"}, true},
		{"terraform-provider-foo_v1.2.3.exe", clues{typ: "foo", version: "1.2.3"}, true},
		{"Terraform-Provider-Foo_V1.2.3.EXE", clues{typ: "foo", version: "1.2.3"}, true},
		{"terraform-provider-foo_v1.2.3-beta.1_x5", clues{typ: "foo", version: "1.2.3-beta.1"}, true},
		{"terraform-provider-foo_v1.2.3_x", clues{typ: "foo", version: "1.2.3_x"}, true},
		{"terraform-provider-foo", clues{typ: "foo", version: ""}, true},
		{"terraform-provider-foo.exe", clues{typ: "foo", version: ""}, true},
		{"terraform-provider-foo-bar_v2.0", clues{typ: "foo-bar", version: "2.0"}, true},
		{"terraform-provider-my_thing_v1.0.0", clues{typ: "my_thing", version: "1.0.0"}, true},
		{"terraform-provider-my_vault_v1.0.0", clues{typ: "my", version: "ault_v1.0.0"}, true},
		{"terraform-provider-", clues{}, false},
		{"terraform-provisioner-foo_v1.2.3", clues{}, false},
		{"terraform", clues{}, false},
		{"", clues{}, false},
	} {
		got, ok := parseExecutableName(tt.file)
		if ok != tt.ok || ok && got != tt.want {
			t.Errorf("%s: got %+v, %t", tt.file, got, ok)
		}
		if IsExecutable(tt.file, tt.want.typ) != (tt.want.version != "") || IsExecutable(tt.file, "other") {
			t.Errorf("%s: is not what its name says", tt.file)
		}
	}
}
