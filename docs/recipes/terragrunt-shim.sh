#!/bin/sh
# Plans all units. Larder installs the providers of each unit when Terragrunt runs init for it.
set -eu
larder shim "$HOME/.local/lib/larder"
export TG_TF_PATH="$HOME/.local/lib/larder/terraform"
export TG_NO_AUTO_PROVIDER_CACHE_DIR=true
terragrunt run --all plan
