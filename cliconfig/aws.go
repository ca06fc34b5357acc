package cliconfig

import "strings"

// AWS contains the variables that the tools of AWS read, for stores with the S3 protocol. Larder reads the two files
// that they name only when it connects to a store.
type AWS struct {
	AccessKeyID     string
	SecretAccessKey string
	SessionToken    string

	Profile         string // in the two files; empty means "default"
	CredentialsFile string // path; empty if there is no home directory
	ConfigFile      string // path; empty if there is no home directory

	Region   string // AWS_REGION, or else AWS_DEFAULT_REGION
	Endpoint string // URL of the store: AWS_ENDPOINT_URL_S3, or else AWS_ENDPOINT_URL

	TokenFile   string // file with a token of an identity provider, for RoleARN
	RoleARN     string
	SessionName string // for RoleARN

	ContainerURL       string // of the credentials of a container; empty outside of one
	ContainerToken     string // sent to ContainerURL
	ContainerTokenFile string // contains the token, and takes precedence over ContainerToken

	NoMetadata bool   // don't query the metadata service of EC2
	CABundle   string // path of a file with certificate authorities
}

// containerHost is the address at which ECS serves the credentials of a container.
const containerHost = "http://169.254.170.2"

func (a *AWS) metadata(disabled string) { a.NoMetadata = strings.EqualFold(disabled, "true") }
func (a *AWS) container(path string) {
	a.ContainerURL = containerHost + "/" + strings.TrimPrefix(path, "/")
}
