{{- define "fareway.name" -}}
{{- if contains "fareway" .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ .Release.Name | trunc 32 | trimSuffix "-" }}-fareway{{ end -}}
{{- end }}

{{- define "fareway.selector" -}}
app.kubernetes.io/name: fareway
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "fareway.labels" -}}
{{ include "fareway.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | replace "+" "-" | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "fareway.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default (.Chart.AppVersion | replace "+" "-") }}
{{- end }}

{{- define "fareway.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "fareway.security" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}
