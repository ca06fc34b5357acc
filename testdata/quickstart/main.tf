# A root module to try Larder on:
#
#     go run ./cmd/larder --chdir testdata/quickstart install
#
# The providers are fictitious and do nothing. They are in terraform.d/plugins, which
# is searched without any configuration. Nothing is downloaded.

terraform {
  required_providers {
    flour = {
      source  = "example.test/pantry/flour"
      version = "~> 1.0"
    }
    sugar = {
      source  = "example.test/pantry/sugar"
      version = ">= 2.0.0, < 2.1.0"
    }
    salt = {
      source = "example.test/pantry/salt"
    }
  }
}
