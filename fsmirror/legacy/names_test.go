package legacy

import "testing"

func TestNamesOfExecutables(t *testing.T) {
	for _, tt := range []struct {
		file string
		want name
		ok   bool
	}{
		{"terraform-provider-foo_v1.2.3", name{"foo", "1.2.3"}, true},
		{"terraform-provider-foo_v1.2.3_x4", name{"foo", "1.2.3"}, true},
		{"terraform-provider-foo_v1.2.3_x5.exe", name{"foo", "1.2.3"}, true},
		{"terraform-provider-foo_v1.2.3.exe", name{"foo", "1.2.3"}, true},
		{"Terraform-Provider-Foo_V1.2.3.EXE", name{"foo", "1.2.3"}, true},
		{"terraform-provider-foo_v1.2.3-beta.1_x5", name{"foo", "1.2.3-beta.1"}, true},
		{"terraform-provider-foo_v1.2.3_x", name{"foo", "1.2.3_x"}, true},
		{"terraform-provider-foo", name{"foo", ""}, true},
		{"terraform-provider-foo.exe", name{"foo", ""}, true},
		{"terraform-provider-foo-bar_v2.0", name{"foo-bar", "2.0"}, true},
		{"terraform-provider-my_thing_v1.0.0", name{"my_thing", "1.0.0"}, true},
		{"terraform-provider-my_vault_v1.0.0", name{"my", "ault_v1.0.0"}, true},
		{"terraform-provider-", name{}, false},
		{"terraform-provisioner-foo_v1.2.3", name{}, false},
		{"terraform", name{}, false},
		{"", name{}, false},
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
