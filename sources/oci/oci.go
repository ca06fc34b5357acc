// Package oci reads providers in OCI registries, in the form that OpenTofu installs with its method oci_mirror.
package oci
