package portal

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/fareway/fareway/modules/portal/views"
)

//go:embed assets
var assetFiles embed.FS

// asset is a file that pages load, under a name that changes with what is in it: browsers keep it for good.
type asset struct {
	kind    string
	content []byte
}

var (
	assets     = map[string]asset{}
	assetLinks = views.Assets{Style: addAsset("style.css", "text/css; charset=utf-8"),
		Script: addAsset("portal.js", "text/javascript; charset=utf-8"), Icon: addAsset("icon.svg", "image/svg+xml")}
)

func addAsset(name, kind string) (link string) {
	content, err := assetFiles.ReadFile("assets/" + name)
	if err != nil {
		panic(err) // it is in the program
	}
	sum := sha256.Sum256(content)
	before, after, _ := strings.Cut(name, ".")
	name = before + "-" + hex.EncodeToString(sum[:6]) + "." + after
	assets[name] = asset{kind, content}
	return "/portal/assets/" + name
}

func serveAsset(w http.ResponseWriter, r *http.Request) {
	a, ok := assets[r.PathValue("name")]
	if !ok {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", a.kind)
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(a.content))
}

// retryAfter is the header of this name.
func retryAfter(d time.Duration) string { return strconv.FormatInt(int64(d.Seconds())+1, 10) }
