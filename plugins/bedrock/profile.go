package bedrock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

const (
	defaultProfile = "default"
	// profileAge is how long what was read of a file counts.
	profileAge = time.Minute
)

// profile is a section of a file of AWS credentials.
type profile struct{ path, section string }

// Retrieve implements aws.CredentialsProvider. Its errors show nothing of the file.
func (p profile) Retrieve(context.Context) (aws.Credentials, error) {
	text, err := os.ReadFile(p.path)
	if err != nil {
		if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
			err = pathErr.Err
		}
		return aws.Credentials{}, fmt.Errorf("reading %s: %w", p.path, err)
	}
	section := cmp.Or(p.section, defaultProfile)
	values := sectionOf(string(text), section)
	c := aws.Credentials{AccessKeyID: values["aws_access_key_id"], SecretAccessKey: values["aws_secret_access_key"],
		SessionToken: values["aws_session_token"], Source: p.path, CanExpire: true, Expires: time.Now().Add(profileAge)}
	if !c.HasKeys() {
		return aws.Credentials{}, fmt.Errorf(
			"%s has no aws_access_key_id with aws_secret_access_key in its section [%s]", p.path, section)
	}
	return c, nil
}

// sectionOf reads a section of a file in AWS's form: lines "name = value" below "[section]"; a config file says
// "[profile section]". Comments begin with # or ;.
func sectionOf(text, section string) map[string]string {
	values := map[string]string{}
	within := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if title, ok := strings.CutPrefix(line, "["); ok {
			title, _, _ = strings.Cut(title, "]")
			title = strings.TrimSpace(title)
			within = title == section || strings.Join(strings.Fields(title), " ") == "profile "+section
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if within && ok && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, ";") {
			values[strings.ToLower(strings.TrimSpace(name))] = strings.TrimSpace(value)
		}
	}
	return values
}
