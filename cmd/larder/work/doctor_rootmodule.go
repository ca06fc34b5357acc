package work

import "context"

// rootModuleChecks are the checks of doctor for this area.
var rootModuleChecks []check

// rootModuleSummary describes what was examined.
func rootModuleSummary(context.Context, *checkup) string { return "" }
