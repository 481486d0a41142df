// Package bedrock is the provider for models on Amazon Bedrock: its Converse API, streamed, by AWS's own library.
//
// The library signs requests, finds the region's address and reads the stream; connections, time-outs, proxy and
// authorities are those of every provider, and it tries nothing twice, for that is the gateway's to do. Nothing of the
// environment or of the machine counts: what it may use is in the settings.
//
// It marks what of a prompt is to be kept in Bedrock's cache. What the model thinks is hidden, and is part of the
// output that Bedrock counts. Bedrock cannot prove what was used after a cancel, so this is no provider.CancelProver:
// the gateway reads abandoned replies to their end.
//
// Facts are from docs.aws.amazon.com/bedrock (API reference "ConverseStream", user guide "Prompt caching", "Bedrock
// API keys"), November 2026, and from the library, v1.63.
//
// The gateway runs it as a process; see package provider. Other code should not import it.
package bedrock

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime"
	"github.com/aws/smithy-go/auth/bearer"

	"github.com/fareway/fareway/plugins/endpoint"
	"github.com/fareway/fareway/plugins/provider"
)

// Settings are what an operator can set.
type Settings struct {
	Region          string `hcl:"region"`
	AccessKeyID     string `hcl:"access_key_id,optional" secret:"true"`
	SecretAccessKey string `hcl:"secret_access_key,optional" secret:"true"`
	SessionToken    string `hcl:"session_token,optional" secret:"true"`
	APIKey          string `hcl:"api_key,optional" secret:"true"`
	ProfileFile     string `hcl:"profile_file,optional"`
	Profile         string `hcl:"profile,optional"`
	BaseURL         string `hcl:"base_url,optional"`
	ControlURL      string `hcl:"control_url,optional"`
	PromptCaching   string `hcl:"prompt_caching,optional"`
	provider.Connection
}

// Docs implements provider.Documented.
func (Settings) Docs() map[string]string {
	return map[string]string{
		"region": "The AWS region, such as \"us-east-1\".",
		"access_key_id": "The id of an access key, which belongs together with secret_access_key. The environment and the " +
			"machine's role are never asked. Default: none; one of access_key_id, api_key and profile_file is needed.",
		"secret_access_key": "The secret of access_key_id.",
		"session_token":     "The session token of temporary credentials. Default: none.",
		"api_key":           "A Bedrock API key, sent as a bearer token; nothing is signed then. Default: none.",
		"profile_file": "A file of AWS credentials with sections such as [default], by its path. It is read anew each " +
			"minute, so that what renews temporary credentials can write them there. Default: none.",
		"profile": "The section of profile_file. Default: \"" + defaultProfile + "\".",
		"base_url": "Where Bedrock's runtime is: a VPC endpoint, or a proxy that speaks for it. Default: the region's own " +
			"address.",
		"control_url": "Where Bedrock's control plane is, which lists models; nothing else is asked there. Default: " +
			"base_url where that is set, otherwise the region's own address.",
		"prompt_caching": "How long Bedrock is to keep the beginning of a prompt for the next turn: \"5m\", \"1h\", or " +
			"\"off\"; \"auto\" is 5m for models whose name says that they can (Claude since 3.7 and 3.5 Haiku, Amazon Nova), " +
			"and off for others, which refuse the marks. Set cache_read and cache_write in the route's price. Default: \"" +
			autoCaching + "\".",
	}
}

const (
	autoCaching = "auto"
	noCaching   = "off"
)

// Choices implements provider.Choosy.
func (Settings) Choices() map[string][]string {
	return map[string][]string{"prompt_caching": {autoCaching, "5m", "1h", noCaching}}
}

// Bedrock is the provider.
type Bedrock struct {
	settings Settings
	endpoint endpoint.Endpoint
	http     endpoint.Client
	client   *bedrockruntime.Client

	control     *url.URL                // of the control plane
	credentials aws.CredentialsProvider // nil where nothing is signed
}

// New makes the provider; it can be used after its settings are filled and Start.
func New() provider.Provider { return &Bedrock{} }

// Settings implements provider.Configurable.
func (b *Bedrock) Settings() any { return &b.settings }

// regions have names such as eu-central-1 and us-gov-west-1. They are part of an address.
var regions = regexp.MustCompile(`^[a-z]{2,}(-[a-z]+)+-[0-9]+$`)

// Start implements provider.Starter: it checks the settings. Bedrock is not asked anything.
func (b *Bedrock) Start(context.Context) error {
	s := &b.settings
	if !regions.MatchString(s.Region) {
		return errors.New("setting region must be the name of an AWS region, such as \"us-east-1\"")
	}
	switch s.PromptCaching {
	case "", autoCaching, "5m", "1h", noCaching:
	default:
		return errors.New("setting prompt_caching must be auto, 5m, 1h or off")
	}
	options := bedrockruntime.Options{Region: s.Region, Retryer: aws.NopRetryer{}, AuthSchemePreference: []string{"sigv4"}}
	address := "https://bedrock-runtime." + s.Region + ".amazonaws.com"
	b.control = &url.URL{Scheme: "https", Host: "bedrock." + s.Region + ".amazonaws.com"}
	if s.BaseURL != "" {
		base, err := endpoint.Base("base_url", s.BaseURL)
		if err != nil {
			return err
		}
		b.control, address = base, base.String()
		options.BaseEndpoint = &address
	}
	if s.ControlURL != "" {
		var err error
		if b.control, err = endpoint.Base("control_url", s.ControlURL); err != nil {
			return err
		}
	}
	key, err := b.sign(&options)
	if err != nil {
		return err
	}
	b.endpoint = endpoint.Endpoint{URL: address, AlwaysStream: true, // which is all that is called
		Settings: endpoint.Settings{Address: "region and base_url", Key: key, Signs: true}}
	if key == "api_key" {
		b.endpoint.Headers = []endpoint.Header{{Name: "Authorization", Value: "Bearer " + strings.TrimSpace(s.APIKey)}}
	}
	if err := s.Apply(&b.endpoint); err != nil {
		return err
	}
	b.credentials = options.Credentials
	token, scheme := options.BearerAuthTokenProvider, options.AuthSchemePreference
	b.client = bedrockruntime.New(options, func(o *bedrockruntime.Options) {
		o.BearerAuthTokenProvider, o.AuthSchemePreference = token, scheme // not those of the environment
	})
	return nil
}

// sign sets what requests are signed with, and returns the name of the setting that it came from.
func (b *Bedrock) sign(o *bedrockruntime.Options) (setting string, err error) {
	s := &b.settings
	values := map[string]string{}
	for name, value := range map[string]string{"access_key_id": s.AccessKeyID, "secret_access_key": s.SecretAccessKey,
		"session_token": s.SessionToken, "api_key": s.APIKey} {
		if values[name], err = provider.Secret(name, value); err != nil {
			return "", err
		}
	}
	ways := 0
	for _, way := range []string{values["access_key_id"], values["api_key"], s.ProfileFile} {
		if way != "" {
			ways++
		}
	}
	switch {
	case (values["access_key_id"] == "") != (values["secret_access_key"] == ""):
		return "", errors.New("settings access_key_id and secret_access_key belong together: set both, or none")
	case values["session_token"] != "" && values["access_key_id"] == "":
		return "", errors.New("setting session_token needs access_key_id and secret_access_key")
	case s.Profile != "" && s.ProfileFile == "":
		return "", errors.New("setting profile needs profile_file")
	case ways == 0:
		return "", errors.New("credentials are needed: write access_key_id = env(\"AWS_ACCESS_KEY_ID\") and " +
			"secret_access_key = env(\"AWS_SECRET_ACCESS_KEY\"), or api_key, or profile_file")
	case ways > 1:
		return "", errors.New("settings access_key_id, api_key and profile_file exclude each other; leave one of them")
	case values["api_key"] != "":
		o.BearerAuthTokenProvider = bearer.StaticTokenProvider{Token: bearer.Token{Value: values["api_key"]}}
		o.BearerAuthSigner, o.AuthSchemePreference = unsigned{}, []string{"httpBearerAuth"}
		return "api_key", nil
	case s.ProfileFile != "":
		file := profile{path: s.ProfileFile, section: s.Profile}
		if _, err := file.Retrieve(context.Background()); err != nil {
			return "", fmt.Errorf("setting profile_file: %w", err)
		}
		o.Credentials = aws.NewCredentialsCache(file)
		return "profile_file", nil
	}
	fixed := aws.Credentials{AccessKeyID: values["access_key_id"], SecretAccessKey: values["secret_access_key"],
		SessionToken: values["session_token"], Source: "settings"}
	o.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return fixed, nil })
	return "access_key_id", nil
}

// unsigned leaves a request as it is: the token is in a header of the endpoint, which the library would send over
// https only, to no address of a proxy on this machine.
type unsigned struct{}

func (unsigned) SignWithBearerToken(_ context.Context, _ bearer.Token, m bearer.Message) (bearer.Message, error) {
	return m, nil
}

var (
	_ provider.Provider     = (*Bedrock)(nil)
	_ provider.Configurable = (*Bedrock)(nil)
	_ provider.Starter      = (*Bedrock)(nil)
)
