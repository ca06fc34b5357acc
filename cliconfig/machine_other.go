//go:build !windows

package cliconfig

func roamingAppData() string { return "" }
