package bedrock_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/provider"
	"github.com/fareway/fareway/plugins/providertest"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// list asks for the models that a service offers.
func list(t *testing.T, values json.RawMessage) ([]llm.Model, error) {
	t.Helper()
	models, err := start(t, values).(provider.ModelLister).Models(providertest.Context(t))
	if err != nil {
		require.NotContains(t, err.Error(), "zq11")
	}
	return models, err
}

// TestModels proves the "lists what an upstream offers": what a route can name.
func TestModels(t *testing.T) {
	t.Parallel()
	s := upstream.Start(t, upstream.Options{APIKey: keyID,
		Models: []string{"eu.anthropic.claude-x", "amazon.nova-lite-v1:0", "global.anthropic.claude-x"}})
	models, err := list(t, at(t, s, nil))
	require.NoError(t, err)
	require.Equal(t, []llm.Model{{ID: "amazon.nova-lite-v1:0"}, {ID: "eu.anthropic.claude-x"},
		{ID: "global.anthropic.claude-x"}}, models)

	bearer := upstream.Start(t, upstream.Options{APIKey: "bedrock-zq11", Models: []string{"a.b"}})
	models, err = list(t, at(t, bearer, map[string]any{"api_key": "bedrock-zq11"}))
	require.NoError(t, err)
	require.Equal(t, []llm.Model{{ID: "a.b"}}, models)

	// A control plane of its own: the runtime's address has no lists.
	models, err = list(t, at(t, fake(t), map[string]any{"control_url": s.URL() + "/"}))
	require.NoError(t, err)
	require.Len(t, models, 3)
}

// TestModelsAsListed: lists in pages, with members of other kinds and without, signed as Bedrock checks it.
func TestModelsAsListed(t *testing.T) {
	t.Parallel()
	var asked []string
	answers := []string{`{"modelSummaries":[
		{"modelId":"a.speaks","outputModalities":["TEXT"],"inferenceTypesSupported":["PROVISIONED","ON_DEMAND"],"odd":{}},
		{"modelId":"a.speaks","outputModalities":["TEXT"],"inferenceTypesSupported":["ON_DEMAND"]},
		{"modelId":"a.whole","outputModalities":["TEXT"],"inferenceTypesSupported":["ON_DEMAND"],
			"responseStreamingSupported":false},
		{"modelId":"a.draws","outputModalities":["IMAGE"],"inferenceTypesSupported":["ON_DEMAND"]},
		{"modelId":"a.bought","outputModalities":["TEXT"],"inferenceTypesSupported":["PROVISIONED"]},
		{"modelId":"a.new","outputModalities":["TEXT"],"inferenceTypesSupported":["INFERENCE_PROFILE"]},
		{"outputModalities":["TEXT"],"inferenceTypesSupported":["ON_DEMAND"]}]}`,
		`{"inferenceProfileSummaries":[
		{"inferenceProfileId":"eu.a.new","status":"ACTIVE","models":[{"modelArn":"arn:aws:bedrock:x::foundation-model/a.new"},
			{"modelArn":"arn:aws:bedrock:y::foundation-model/a.new"}]},
		{"inferenceProfileId":"eu.a.draws","status":"ACTIVE","models":[{"modelArn":"z:foundation-model/a.draws"}]},
		{"inferenceProfileId":"eu.a.gone","status":"LEGACY","models":[{"modelArn":"z:foundation-model/a.new"}]},
		{"status":"ACTIVE","models":[{"modelArn":"z:foundation-model/a.new"}]}],"nextToken":"t/1"}`,
		`{"inferenceProfileSummaries":[{"inferenceProfileId":"a.0","status":"ACTIVE",
			"models":[{"modelArn":"z:foundation-model/a.new"}]}]}`}
	key := aws.Credentials{AccessKeyID: keyID, SecretAccessKey: secret, SessionToken: "tokenzq11"}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// What the library's signer makes of the same request at the same time is what Bedrock expects.
		when, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
		again, _ := http.NewRequestWithContext(context.Background(), r.Method, "http://"+r.Host+r.URL.String(), nil)
		sum := sha256.Sum256(nil)
		if err == nil {
			err = v4.NewSigner().SignHTTP(r.Context(), key, again, hex.EncodeToString(sum[:]), "bedrock", "eu-central-1",
				when)
		}
		if n := len(asked); err == nil && n < len(answers) &&
			again.Header.Get("Authorization") == r.Header.Get("Authorization") {
			asked = append(asked, r.URL.RequestURI())
			_, _ = w.Write([]byte(answers[n]))
			return
		}
		w.WriteHeader(http.StatusForbidden)
	}))
	t.Cleanup(server.Close)
	models, err := list(t, at(t, fake(t), map[string]any{"base_url": server.URL, "session_token": "tokenzq11"}))
	require.NoError(t, err)
	require.Equal(t, []llm.Model{{ID: "a.0"}, {ID: "a.speaks"}, {ID: "eu.a.new"}}, models)
	require.Equal(t, []string{"/foundation-models", "/inference-profiles?maxResults=1000&type=SYSTEM_DEFINED",
		"/inference-profiles?maxResults=1000&nextToken=t%2F1&type=SYSTEM_DEFINED"}, asked)
}

// TestModelsOfARegion: without an address of the operator's, it is the region's.
func TestModelsOfARegion(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 1)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Method + " " + r.Host
		w.WriteHeader(http.StatusForbidden)
	}))
	t.Cleanup(proxy.Close)
	_, err := list(t, at(t, fake(t), map[string]any{"base_url": "", "proxy": proxy.URL}))
	require.Error(t, err)
	require.Equal(t, "CONNECT bedrock.eu-central-1.amazonaws.com:443", <-asked)
}

func TestModelsRefused(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "credentials")
	require.NoError(t, os.WriteFile(file,
		[]byte("[default]\naws_access_key_id=zq11\naws_secret_access_key=zq11\n"), 0o600))
	for name, c := range map[string]struct {
		header string
		status int
		body   string
		kind   llm.ErrorKind
		says   string
	}{
		"no policy, by its header": {"AccessDeniedException:http://x/", 403, `{"message":"zq11"}`, llm.ErrCredentials,
			"(AccessDeniedException); the account's policy needs bedrock:ListFoundationModels"},
		"no policy, by its body": {"", 403, `{"__type":"com.amazon.coral#AccessDeniedException","message":"zq11"}`,
			llm.ErrCredentials, "bedrock:ListInferenceProfiles"},
		"another key":   {"", 403, `{"__type":"UnrecognizedClientException"}`, llm.ErrCredentials, "check access_key_id"},
		"too often":     {"ThrottlingException", 429, `{}`, llm.ErrCapacity, "(ThrottlingException)"},
		"a runtime's":   {"UnknownOperationException", 404, `zq11`, llm.ErrRejected, "(UnknownOperationException)"},
		"no list":       {"", 200, `{}`, llm.ErrUpstream, "check control_url"},
		"no JSON":       {"", 200, `<html>zq11`, llm.ErrUpstream, "check control_url"},
		"cut short":     {"", 200, "", llm.ErrBroken, ""},
		"another place": {"", 302, "", llm.ErrUpstream, "set region and control_url"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("X-Amzn-Errortype", c.header)
				w.Header().Set("X-Amzn-Requestid", "req-7")
				if c.body == "" {
					w.Header().Set("Content-Length", "9")
				}
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.body))
			}))
			t.Cleanup(server.Close)
			_, err := list(t, at(t, fake(t), map[string]any{"base_url": server.URL}))
			require.Equal(t, c.kind, llm.KindOf(err), "%v", err)
			require.ErrorContains(t, err, c.says)
		})
	}
	t.Run("nobody there", func(t *testing.T) {
		t.Parallel()
		_, err := list(t, at(t, fake(t), map[string]any{"control_url": "http://127.0.0.1:1"}))
		require.Equal(t, llm.ErrUpstream, llm.KindOf(err))
		require.ErrorContains(t, err, "control_url")
	})
	t.Run("a file that is gone", func(t *testing.T) {
		t.Parallel()
		p := start(t, at(t, fake(t), map[string]any{"profile_file": file}))
		require.NoError(t, os.Remove(file))
		_, err := p.(provider.ModelLister).Models(providertest.Context(t))
		require.Equal(t, llm.ErrCredentials, llm.KindOf(err))
		require.ErrorContains(t, err, "check profile_file")
	})
}
