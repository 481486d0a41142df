package engine

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/fareway/fareway/plugins/llm"
)

const (
	probeTime = 30 * time.Second // that a probe may take
	// probePause is for how long words are not believed again after a probe that the upstream took: a client that can
	// bring the words about gets no more than one probe for it.
	probePause = time.Minute
)

// sure reports whether a refusal that names the key, or what is paid with it, needs no probe. Where nothing but the
// text of a message says so, a client may have brought the text about (GAP-126).
func sure(err *llm.Error) bool {
	return err.Basis != llm.ByWording ||
		err.Status == http.StatusUnauthorized || err.Status == http.StatusPaymentRequired
}

// ofWholeKey reports whether a refusal of the credential holds for all that is asked with it: 403 alone says that this
// is not allowed to it, and nothing of its other models.
func ofWholeKey(err *llm.Error) bool {
	return err.Basis == llm.ByCode || err.Status == http.StatusUnauthorized || err.Status == 0
}

// suspect asks the upstream by a small request of the gateway's own, in which no client's text is, whether the key
// does serve, and passes it over if not. The request that raised the suspicion does not wait for that.
func (k *providerKey) suspect(model string, err *llm.Error, by Backend) {
	now := k.now()
	k.mu.Lock()
	idle := by == nil || k.probing || now.Before(k.cleared)
	out := k.out != ""
	k.probing = k.probing || !idle && !out
	k.mu.Unlock()
	switch {
	case out: // it was found not to serve before, and this request tried it
		k.benched(err)
		return
	case idle:
		return
	}
	k.spawn(func() {
		failed := probe(by, model)
		k.mu.Lock()
		k.probing = false
		if failed == nil {
			k.cleared = k.now().Add(probePause)
		}
		k.mu.Unlock()
		if failed != nil {
			k.benched(failed)
		}
	})
}

// probe returns how the upstream refused the key, nil where it did not.
func probe(by Backend, model string) *llm.Error {
	ctx, cancel := context.WithTimeout(context.Background(), probeTime)
	defer cancel()
	stream, err := by.Generate(ctx, "", &llm.Request{Attempt: "probe_" + rand.Text(), Model: model, MaxTokens: 1,
		Whole: true, Messages: []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{llm.Text("Hi")}}}})
	if err == nil {
		defer stream.Close()
		for err == nil {
			_, err = stream.Recv()
		}
	}
	failed, ok := errors.AsType[*llm.Error](err)
	if !ok || errors.Is(err, io.EOF) || failed.Kind != llm.ErrCredentials && failed.Kind != llm.ErrQuota {
		return nil
	}
	return failed
}

// benched passes the key over for what the upstream said of it.
func (k *providerKey) benched(err *llm.Error) {
	if err.Kind == llm.ErrQuota {
		k.passOver(KeyExhausted, quotaPause, err)
	} else {
		k.passOver(KeyRefused, refusedPause, err)
	}
}
