package bedrock

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/restjson"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/smithy-go"

	"github.com/fareway/fareway/plugins/internal/reply"
	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/provider"
)

const (
	// service is the name for which requests are signed.
	service = "bedrock"
	// maxModels bounds a page of a list, in bytes: a model is about 1 KB.
	maxModels = 8 << 20
	// maxPages bounds how many are read, should a service never come to an end.
	maxPages = 100
)

// Models implements provider.ModelLister: the models that answer in text, streamed, each as a route has to name it, by
// its own id, or by those of the inference profiles through which alone newer ones are offered (API reference,
// "ListFoundationModels" and "ListInferenceProfiles"). Bedrock says nothing of windows and prices.
func (b *Bedrock) Models(ctx context.Context) ([]llm.Model, error) {
	var listed struct {
		Models *[]struct {
			ID       string   `json:"modelId"`
			Output   []string `json:"outputModalities"`
			Offered  []string `json:"inferenceTypesSupported"`
			Streamed *bool    `json:"responseStreamingSupported"`
		} `json:"modelSummaries"`
	}
	if err := b.list(ctx, "/foundation-models", nil, &listed); err != nil {
		return nil, err
	}
	if listed.Models == nil {
		return nil, unreadable()
	}
	ids := []string{}
	speaks := map[string]bool{}
	for _, m := range *listed.Models {
		if m.ID == "" || !slices.Contains(m.Output, "TEXT") || m.Streamed != nil && !*m.Streamed {
			continue
		}
		speaks[m.ID] = true
		if slices.Contains(m.Offered, "ON_DEMAND") {
			ids = append(ids, m.ID)
		}
	}
	query := url.Values{"maxResults": {"1000"}, "type": {"SYSTEM_DEFINED"}}
	for range maxPages {
		var page struct {
			Profiles []struct {
				ID     string `json:"inferenceProfileId"`
				Status string `json:"status"`
				Models []struct {
					ARN string `json:"modelArn"`
				} `json:"models"`
			} `json:"inferenceProfileSummaries"`
			Next string `json:"nextToken"`
		}
		if err := b.list(ctx, "/inference-profiles", query, &page); err != nil {
			return nil, err
		}
		for _, p := range page.Profiles {
			for _, m := range p.Models {
				_, model, _ := strings.Cut(m.ARN, "foundation-model/")
				if p.ID != "" && p.Status == "ACTIVE" && speaks[model] {
					ids = append(ids, p.ID)
					break
				}
			}
		}
		if page.Next == "" {
			break
		}
		query.Set("nextToken", page.Next)
	}
	slices.Sort(ids)
	models := []llm.Model{}
	for _, id := range slices.Compact(ids) {
		models = append(models, llm.Model{ID: id})
	}
	return models, nil
}

// list asks the control plane for a list, signed as the library signs other calls: its module for the control plane
// is a large one for two requests without a body.
func (b *Bedrock) list(ctx context.Context, path string, query url.Values, into any) error {
	u := b.control.JoinPath(path)
	u.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return llm.Errorf(llm.ErrRejected, "listing models: setting control_url makes no request")
	}
	if b.credentials != nil {
		key, err := b.credentials.Retrieve(ctx)
		if err == nil {
			sum := sha256.Sum256(nil)
			err = v4.NewSigner().SignHTTP(ctx, key, req, hex.EncodeToString(sum[:]), service, b.settings.Region, time.Now())
		}
		if err != nil {
			return unsignable(&b.endpoint)
		}
	}
	e := b.endpoint
	e.Settings.Address = "region and control_url"
	resp, err := b.http.Do(&e, req)
	if err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		header := resp.Header
		return e.Refusal(resp, func(status int, _ string, body []byte) *llm.Error {
			return listFailure(status, header, body)
		})
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxModels))
	if err != nil {
		return err
	}
	if json.Unmarshal(body, into) != nil {
		return unreadable()
	}
	return nil
}

func unreadable() error {
	return &llm.Error{Kind: llm.ErrUpstream, Status: http.StatusOK,
		Message: "the upstream's list of models could not be read; check control_url"}
}

// listFailure makes the error of a list that was refused.
func listFailure(status int, header http.Header, body []byte) *llm.Error {
	code, _, _ := restjson.GetErrorInfo(json.NewDecoder(bytes.NewReader(body))) // what is no JSON says nothing
	if named := header.Get("X-Amzn-Errortype"); named != "" {
		code = named
	}
	code = restjson.SanitizeErrorCode(code)
	if strings.EqualFold(code, "AccessDeniedException") {
		return &llm.Error{Kind: llm.ErrCredentials, Status: status, Message: reply.LogText(
			"the upstream answered with an error", code) +
			"; the account's policy needs bedrock:ListFoundationModels and bedrock:ListInferenceProfiles"}
	}
	return failure(status, &smithy.GenericAPIError{Code: code})
}

var _ provider.ModelLister = (*Bedrock)(nil)
