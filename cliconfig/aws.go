package cliconfig

import (
	"cmp"
	"strings"
)

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

// aws reads the variables of AWS.
func (l *loader) aws() AWS {
	a := AWS{
		AccessKeyID:     l.getenv("AWS_ACCESS_KEY_ID"),
		SecretAccessKey: l.getenv("AWS_SECRET_ACCESS_KEY"),
		SessionToken:    l.getenv("AWS_SESSION_TOKEN"),

		Profile:         l.getenv("AWS_PROFILE"),
		CredentialsFile: cmp.Or(l.path("AWS_SHARED_CREDENTIALS_FILE"), l.join(l.home(), ".aws", "credentials")),
		ConfigFile:      cmp.Or(l.path("AWS_CONFIG_FILE"), l.join(l.home(), ".aws", "config")),

		Region:   cmp.Or(l.getenv("AWS_REGION"), l.getenv("AWS_DEFAULT_REGION")),
		Endpoint: cmp.Or(l.getenv("AWS_ENDPOINT_URL_S3"), l.getenv("AWS_ENDPOINT_URL")),

		TokenFile:   l.path("AWS_WEB_IDENTITY_TOKEN_FILE"),
		RoleARN:     l.getenv("AWS_ROLE_ARN"),
		SessionName: l.getenv("AWS_ROLE_SESSION_NAME"),

		ContainerURL:       l.getenv("AWS_CONTAINER_CREDENTIALS_FULL_URI"),
		ContainerToken:     l.getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN"),
		ContainerTokenFile: l.path("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"),

		NoMetadata: strings.EqualFold(l.getenv("AWS_EC2_METADATA_DISABLED"), "true"),
		CABundle:   l.path("AWS_CA_BUNDLE"),
	}
	if path := l.getenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"); path != "" {
		a.ContainerURL = containerHost + "/" + strings.TrimPrefix(path, "/")
	}
	l.secrets.Add(a.SecretAccessKey, a.SessionToken, a.ContainerToken)
	l.secrets.AddURL(a.Endpoint)
	l.secrets.AddURL(a.ContainerURL)
	return a
}

// path returns the path in a variable, or "" if it is not set. ~ is the home directory, and relative paths start from
// the working directory.
func (l *loader) path(variable string) string {
	path := l.getenv(variable)
	if rest, ok := strings.CutPrefix(path, "~"); ok && l.home() != "" && l.rooted(rest) {
		return l.join(l.home(), rest[1:])
	}
	if path == "" || !l.ok(Place{}, l.checkPath(variable, path)) {
		return ""
	}
	return l.abs(l.WorkDir, path)
}
