//go:build linux

package public_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/yannh/kubeconform/pkg/validator"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	"sigs.k8s.io/yaml"
)

// kubernetes is the version whose schemas manifests are held against: Kubernetes' own, of the module that has its API.
const kubernetes = "k8s.io/kubernetes@v1.34.2"

// render renders the chart, as `helm template` does.
func render(values string) (map[string]string, error) {
	chart, err := loader.LoadDir("kubernetes")
	if err != nil {
		return nil, err
	}
	own, err := chartutil.ReadValues([]byte(values))
	if err != nil {
		return nil, err
	}
	all, err := chartutil.ToRenderValues(chart, own, chartutil.ReleaseOptions{Name: "shop", Namespace: "default"},
		chartutil.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	return engine.Render(chart, all)
}

// objects are those of rendered manifests, by kind and name.
func objects(t *testing.T, rendered map[string]string) map[string]map[string]any {
	t.Helper()
	all := make(map[string]map[string]any)
	for _, name := range slices.Sorted(maps.Keys(rendered)) {
		for part := range strings.SplitSeq(rendered[name], "\n---") {
			var object map[string]any
			require.NoError(t, yaml.UnmarshalStrict([]byte(part), &object), name)
			if object != nil && !strings.HasSuffix(name, ".tpl") {
				meta := object["metadata"].(map[string]any)
				all[fmt.Sprint(object["kind"], " ", meta["name"])] = object
			}
		}
	}
	return all
}

// at is what lies at a path in an object.
func at(t *testing.T, object any, path ...any) any {
	t.Helper()
	for _, step := range path {
		switch step := step.(type) {
		case string:
			fields, ok := object.(map[string]any)
			require.True(t, ok, "%v: %v", path, object)
			object = fields[step]
		case int:
			list, ok := object.([]any)
			require.True(t, ok && len(list) > step, "%v: %v", path, object)
			object = list[step]
		}
	}
	return object
}

// schemas are written from Kubernetes' description of its API: for kubeconform, and strict, so that a field that there
// is not is wrong.
func schemas(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", kubernetes).Output()
	require.NoError(t, err, "%s", out)
	var module struct{ Dir string }
	require.NoError(t, json.Unmarshal(out, &module))
	content, err := os.ReadFile(filepath.Join(module.Dir, "api", "openapi-spec", "swagger.json"))
	require.NoError(t, err)
	var api struct {
		Definitions map[string]map[string]any `json:"definitions"`
	}
	require.NoError(t, json.Unmarshal(content, &api))
	for name, d := range api.Definitions {
		if d["properties"] != nil && d["additionalProperties"] == nil {
			d["additionalProperties"] = false
		}
		if strings.HasSuffix(name, ".IntOrString") {
			api.Definitions[name] = map[string]any{"oneOf": []any{map[string]any{"type": "string"},
				map[string]any{"type": "integer"}}}
		}
	}
	folder := t.TempDir()
	for _, d := range api.Definitions {
		kinds, _ := d["x-kubernetes-group-version-kind"].([]any)
		if len(kinds) != 1 {
			continue
		}
		of := kinds[0].(map[string]any)
		schema := maps.Clone(d)
		schema["definitions"] = api.Definitions
		text, err := json.Marshal(schema)
		require.NoError(t, err)
		group, _, _ := strings.Cut(of["group"].(string), ".")
		name := strings.Trim(fmt.Sprintf("%s-%s-%s", of["kind"], group, of["version"]), "-")
		if group == "" {
			name = fmt.Sprintf("%s-%s", of["kind"], of["version"])
		}
		if slices.Contains([]string{"statefulset", "service", "configmap", "ingress", "cronjob", "persistentvolumeclaim",
			"poddisruptionbudget"}, strings.ToLower(of["kind"].(string))) {
			require.NoError(t, os.WriteFile(filepath.Join(folder, strings.ToLower(name)+".json"), text, 0o600))
		}
	}
	return filepath.Join(folder, "{{ .ResourceKind }}{{ .KindSuffix }}.json")
}

// TestChart: the chart is one for Helm, and what it renders is right by Kubernetes' own schemas, and about money.
func TestChart(t *testing.T) {
	t.Parallel()
	result := lint.All("kubernetes", nil, "default", true)
	for _, m := range result.Messages {
		require.Less(t, m.Severity, support.WarningSev, m.Error())
	}
	v, err := validator.New([]string{schemas(t)}, validator.Opts{Strict: true, KubernetesVersion: "1.34.2"})
	require.NoError(t, err)
	for name, c := range map[string]struct {
		values string
		kinds  []string
	}{
		"one node": {"", []string{"ConfigMap shop-fareway", "CronJob shop-fareway-backup",
			"CronJob shop-fareway-restore-test", "PersistentVolumeClaim shop-fareway-backup", "Service shop-fareway",
			"Service shop-fareway-pods",
			"StatefulSet shop-fareway"}},
		"encrypted, with an ingress": {"ingress: {enabled: true}\nbackup: {encryptTo: [age1xyz]}\n" +
			"storage: {className: fast}\n" +
			"tolerations: [{key: a, operator: Exists}]\nnodeSelector: {disk: ssd}\nimagePullSecrets: [{name: pull}]\n" +
			"podAnnotations: {a: b}\nservice: {annotations: {c: d}}",
			[]string{"ConfigMap shop-fareway", "CronJob shop-fareway-backup", "Ingress shop-fareway",
				"PersistentVolumeClaim shop-fareway-backup", "Service shop-fareway", "Service shop-fareway-pods",
				"StatefulSet shop-fareway"}},
		"several nodes": {"store: postgres\nreplicas: 3", []string{"ConfigMap shop-fareway",
			"PodDisruptionBudget shop-fareway", "Service shop-fareway", "Service shop-fareway-pods",
			"StatefulSet shop-fareway"}},
	} {
		t.Run(name, func(t *testing.T) {
			rendered, err := render(c.values)
			require.NoError(t, err)
			all := objects(t, rendered)
			require.Equal(t, c.kinds, slices.Sorted(maps.Keys(all)))
			for file, text := range rendered {
				for _, r := range v.Validate(file, io.NopCloser(bytes.NewReader([]byte(text)))) {
					require.Contains(t, []validator.Status{validator.Valid, validator.Empty}, r.Status, "%s: %v", file, r.Err)
				}
			}
			set := all["StatefulSet shop-fareway"]
			pod := at(t, set, "spec", "template", "spec")
			require.EqualValues(t, 370, at(t, pod, "terminationGracePeriodSeconds"), "300 to drain, 10 of delay, and more")
			require.Equal(t, "/readyz", at(t, pod, "containers", 0, "readinessProbe", "httpGet", "path"))
			require.Equal(t, "/healthz", at(t, pod, "containers", 0, "livenessProbe", "httpGet", "path"))
			require.Equal(t, true, at(t, pod, "securityContext", "runAsNonRoot"))
			require.Equal(t, true, at(t, pod, "containers", 0, "securityContext", "readOnlyRootFilesystem"))
			require.Equal(t, "fareway", at(t, pod, "containers", 0, "envFrom", 0, "secretRef", "name"))
			require.Equal(t, "Retain", at(t, set, "spec", "persistentVolumeClaimRetentionPolicy", "whenDeleted"))
			require.Equal(t, "data", at(t, set, "spec", "volumeClaimTemplates", 0, "metadata", "name"))
			validated(t, all["ConfigMap shop-fareway"])
		})
	}
}

// validated: the gateway takes the configuration that the chart makes.
func validated(t *testing.T, configMap map[string]any) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range at(t, configMap, "data").(map[string]any) {
		content := strings.ReplaceAll(text.(string), "/var/lib/fareway", dir)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	cmd := exec.CommandContext(t.Context(), program, "validate", "--config", filepath.Join(dir, "Caddyfile"))
	cmd.Env = append(os.Environ(), "OPENAI_API_KEY=sk-x")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// TestChartRefuses: two processes on one file of money are none that Helm installs.
func TestChartRefuses(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]string{
		"replicas: 2":                  "replicas",
		"store: mysql":                 "store",
		"drainSeconds: 0":              "drainSeconds",
		"secretName: ''":               "secretName",
		"store: postgres\nreplicas: 0": "replicas",
	} {
		_, err := render(values)
		require.ErrorContains(t, err, want, values)
	}
}
