{{- define "toolgate.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* At most 54 characters: -metrics is appended, and names of Services end at 63. */}}
{{- define "toolgate.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 54 | trimSuffix "-" }}
{{- else }}
{{- $name := include "toolgate.name" . }}
{{- if contains $name .Release.Name }}
{{- .Release.Name | trunc 54 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 54 | trimSuffix "-" }}
{{- end }}
{{- end }}
{{- end }}

{{- define "toolgate.selectorLabels" -}}
app.kubernetes.io/name: {{ include "toolgate.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "toolgate.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "toolgate.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/*
The metadata of an object. `root` is the context of the chart; `own` are the values of the object, of which labels,
annotations and namespace count; `suffix` ends its name, and `component` is what it is for.
*/}}
{{- define "toolgate.metadata" -}}
{{- $own := .own | default dict -}}
name: {{ default (include "toolgate.fullname" .root) .name }}{{ .suffix }}
namespace: {{ default .root.Release.Namespace $own.namespace }}
labels:
  {{- $labels := include "toolgate.labels" .root | fromYaml }}
  {{- with .component }}{{ $_ := set $labels "app.kubernetes.io/component" . }}{{ end }}
  {{- toYaml (mergeOverwrite $labels ($own.labels | default dict)) | nindent 2 }}
{{- with mergeOverwrite (deepCopy .root.Values.commonAnnotations) ($own.annotations | default dict) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* A probe of the admin port at `path`, unless its values name another handler. */}}
{{- define "toolgate.probe" -}}
{{- $probe := deepCopy .probe }}
{{- if not (or $probe.httpGet $probe.exec $probe.tcpSocket $probe.grpc) }}
{{- $_ := set $probe "httpGet" (dict "path" .path "port" "admin") }}
{{- end }}
{{- toYaml $probe }}
{{- end }}

{{/* The rules of Prometheus, changed as prometheusRule.alerts says. */}}
{{- define "toolgate.rules" -}}
{{- $values := .Values.prometheusRule }}
{{- $file := .Files.Get "rules/alerts.yaml" | fromYaml }}
{{- $names := list }}
{{- $groups := list }}
{{- range $group := $file.groups }}
{{- $rules := list }}
{{- range $rule := $group.rules }}
{{- $names = append $names $rule.alert }}
{{- $said := get $values.alerts $rule.alert | default dict }}
{{- if ne (toString $said.enabled) "false" }}
{{- if hasKey $said "threshold" }}
{{- if not (contains "# threshold" $rule.expr) }}
{{- fail (printf "prometheusRule.alerts.%s has no threshold." $rule.alert) }}
{{- end }}
{{- $_ := set $rule "expr" (regexReplaceAll "[0-9.]+( *# threshold)" $rule.expr (printf "%s${1}" (include "toolgate.number" $said.threshold))) }}
{{- end }}
{{- with $said.for }}{{ $_ := set $rule "for" . }}{{ end }}
{{- with $said.severity }}{{ $_ := set $rule.labels "severity" . }}{{ end }}
{{- $_ := set $rule "labels" (mergeOverwrite $rule.labels ($said.labels | default dict)) }}
{{- $runbook := replace "docs/runbooks.md#" (printf "%s#" $values.runbookBase) $rule.annotations.runbook_url }}
{{- $_ := set $rule "annotations" (mergeOverwrite $rule.annotations (dict "runbook_url" $runbook) ($said.annotations | default dict)) }}
{{- $rules = append $rules $rule }}
{{- end }}
{{- end }}
{{- $groups = append $groups (dict "name" $group.name "rules" $rules) }}
{{- end }}
{{- range $name := keys $values.alerts | sortAlpha }}
{{- if not (has $name $names) }}
{{- fail (printf "prometheusRule.alerts.%s is no alert; there are %s." $name (join ", " $names)) }}
{{- end }}
{{- end }}
{{- with $values.rules }}
{{- $groups = append $groups (dict "name" "toolgate-more" "rules" .) }}
{{- end }}
{{- toYaml (dict "groups" $groups) }}
{{- end }}

{{/* A number as it is written without an exponent. */}}
{{- define "toolgate.number" -}}
{{- if eq (floor .) (float64 .) }}{{ int64 . }}{{ else }}{{ . }}{{ end }}
{{- end }}

{{- define "toolgate.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ default $.Chart.AppVersion .tag }}
{{- end }}
{{- end }}
{{- end }}

{{- define "toolgate.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "toolgate.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{/* Whether pods share what they remember, which takes a Redis and keys that all of them have: "true" or nothing. */}}
{{- define "toolgate.shared" -}}
{{- with .Values.config.state }}{{ if and .url .keys }}true{{ end }}{{ end }}
{{- end }}

{{/* The most pods there can be. */}}
{{- define "toolgate.replicas" -}}
{{- with .Values.autoscaling }}{{ ternary .maxReplicas $.Values.replicaCount .enabled }}{{ end }}
{{- end }}

{{/* A duration of the configuration in whole seconds, rounded up. */}}
{{- define "toolgate.seconds" -}}
{{- $number := regexFind "^[0-9]+" . | int }}
{{- $unit := regexFind "[a-z]+$" . }}
{{- if eq $unit "ms" }}{{ divf $number 1000 | ceil | int }}
{{- else }}{{ mul $number (get (dict "s" 1 "m" 60 "h" 3600 "d" 86400) $unit) }}{{ end }}
{{- end }}

{{- define "toolgate.terminationGracePeriodSeconds" -}}
{{- if kindIs "invalid" .Values.terminationGracePeriodSeconds }}
{{- add .Values.preStopSeconds (include "toolgate.seconds" (default "0s" .Values.config.server.drain_delay) | int) (include "toolgate.seconds" .Values.config.server.shutdown_grace | int) 10 }}
{{- else }}
{{- .Values.terminationGracePeriodSeconds }}
{{- end }}
{{- end }}

{{/* Constraints, those without a labelSelector with ours. */}}
{{- define "toolgate.spread" -}}
{{- $ours := dict "matchLabels" (include "toolgate.selectorLabels" .root | fromYaml) }}
{{- $spread := list }}
{{- range .constraints }}
{{- $spread = append $spread (set (deepCopy .) "labelSelector" (default $ours .labelSelector)) }}
{{- end }}
{{- toYaml $spread }}
{{- end }}

{{/* gateway.yaml. Tool servers in the cluster reach the Service, unless the configuration knows better. */}}
{{- define "toolgate.config" -}}
{{- $config := deepCopy .Values.config }}
{{- $server := $config.server }}
{{- if not (or $server.callback_url $server.public_url) }}
{{- $scheme := ternary "https" "http" (hasKey $server "tls") }}
{{- $host := printf "%s.%s.svc" (include "toolgate.fullname" .) .Release.Namespace }}
{{- $_ := set $server "callback_url" (printf "%s://%s:%d" $scheme $host (.Values.service.port | int)) }}
{{- end }}
{{- toYaml $config }}
{{- end }}

{{/* What a schema cannot say. */}}
{{- define "toolgate.check" -}}
{{- if and (gt (include "toolgate.replicas" . | int) 1) (not (include "toolgate.shared" .)) }}
{{- $where := ternary "autoscaling.maxReplicas" "replicaCount" .Values.autoscaling.enabled }}
{{- $lacking := ternary "config.state.keys" "config.state.url" (hasKey (.Values.config.state | default dict) "url") }}
{{- $alone := ternary "that have no key in common cannot read what others keep, and" "that share no Redis" (hasSuffix "keys" $lacking) }}
{{- fail (printf "%s is %s, but %s is not set: pods %s would run a repeated call twice. Set %s, or have one replica." $where (include "toolgate.replicas" .) $lacking $alone $lacking) }}
{{- end }}
{{- if and .Values.autoscaling.enabled (gt (int .Values.autoscaling.minReplicas) (int .Values.autoscaling.maxReplicas)) }}
{{- fail "autoscaling.minReplicas must not be greater than autoscaling.maxReplicas." }}
{{- end }}
{{- $server := .Values.config.server }}
{{- range $path, $hosts := dict "config.server.host" $server.host "config.server.admin.host" $server.admin.host }}
{{- $outside := list }}
{{- range $host := kindIs "slice" $hosts | ternary $hosts (list $hosts) }}
{{- if not (or (eq $host "localhost") (eq $host "::1") (hasPrefix "127." $host)) }}
{{- $outside = append $outside $host }}
{{- end }}
{{- end }}
{{- if not $outside }}
{{- fail (printf "%s is %s, where nothing outside the pod reaches it. Use 0.0.0.0, or :: for IPv6." $path (toString $hosts)) }}
{{- end }}
{{- end }}
{{- if eq (int $server.port) (int $server.admin.port) }}
{{- fail "config.server.port and config.server.admin.port must differ." }}
{{- end }}
{{- if and .Values.ingress.enabled (not .Values.ingress.hosts) }}
{{- fail "ingress.enabled needs ingress.hosts." }}
{{- end }}
{{- if and .Values.httpRoute.enabled (not .Values.httpRoute.parentRefs) }}
{{- fail "httpRoute.enabled needs httpRoute.parentRefs: the Gateways that are to take it." }}
{{- end }}
{{- if .Values.existingConfigMap }}
{{- range $key := keys (omit .Values.config "server" "state") | sortAlpha }}
{{- fail (printf "config.%s has no effect beside existingConfigMap. Write it into the ConfigMap %s." $key $.Values.existingConfigMap) }}
{{- end }}
{{- end }}
{{- $secrets := printf "^(%s)$" (include "toolgate.secretPaths" . | fromYamlArray | join "|") }}
{{- include "toolgate.refuseSecrets" (dict "secrets" $secrets "path" list "value" .Values.config) }}
{{- end }}
