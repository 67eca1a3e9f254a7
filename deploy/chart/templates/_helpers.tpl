{{/* The name of everything: that of the release, if it tells what it is. */}}
{{- define "stowplan.name" -}}
{{- if contains "stowplan" .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-stowplan" .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "stowplan.selector" -}}
app.kubernetes.io/name: stowplan
{{- if ne (include "stowplan.name" .) "stowplan" }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- end -}}

{{- define "stowplan.labels" -}}
{{ include "stowplan.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "stowplan.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "stowplan.leaseNamespace" -}}
{{- if eq .Values.mode "instead" -}}kube-system{{- else -}}{{ .Release.Namespace }}{{- end -}}
{{- end -}}

{{- define "stowplan.leaseName" -}}
{{- if eq .Values.mode "instead" -}}kube-scheduler{{- else -}}{{ include "stowplan.name" . }}{{- end -}}
{{- end -}}

{{- define "stowplan.subjects" -}}
- kind: ServiceAccount
  name: {{ include "stowplan.name" . }}
  namespace: {{ .Release.Namespace }}
{{- end -}}

{{/* Whether the chart makes the ConfigMap of plugins, and under which name. One that is pinned never changes. */}}
{{- define "stowplan.pluginConfigMap" -}}
{{- $plugins := .Values.plugins.configMap -}}
{{- if $plugins.name -}}
{{ $plugins.name }}
{{- else if and $plugins.files $plugins.pin -}}
{{ include "stowplan.name" . }}-plugins-{{ $plugins.files | toJson | sha256sum | trunc 8 }}
{{- else if $plugins.files -}}
{{ include "stowplan.name" . }}-plugins
{{- end -}}
{{- end -}}

{{/* What --plugin takes: file.py:Class, with the hash of the file if it is one of the values and pinned. */}}
{{- define "stowplan.pluginFlags" -}}
{{- $plugins := .Values.plugins.configMap -}}
{{- range .Values.plugins.modules }}
- --plugin={{ . }}
{{- end }}
{{- range $plugins.classes }}
{{- $file := regexReplaceAll ":.*" . "" }}
{{- if not $plugins.files }}
- --plugin=/etc/stowplan-plugins/{{ . }}
{{- else if not (hasKey $plugins.files $file) }}
{{- fail (printf "plugins.configMap.classes: %s: expected a file of plugins.configMap.files" .) }}
{{- else if $plugins.pin }}
- --plugin=/etc/stowplan-plugins/{{ . }}@sha256:{{ get $plugins.files $file | sha256sum }}
{{- else }}
- --plugin=/etc/stowplan-plugins/{{ . }}
{{- end }}
{{- end }}
{{- range .Values.plugins.image.classes }}
- --plugin=/opt/stowplan-plugins/{{ . }}
{{- end }}
{{- end -}}
