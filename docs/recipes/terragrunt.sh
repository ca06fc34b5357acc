#!/bin/sh
# Plans all units. Larder fetches the providers of all units first.
set -eu
export TG_TF_PATH=terraform
larder exec -R -- terragrunt run --all plan
